"""`python -m solar_tf` is the `solar` command."""

import sys

from solar_tf.cli.solar import main

if __name__ == "__main__":
    sys.exit(main())
