"""The one exception that is meant for the person at the keyboard."""


class UserError(Exception):
    """A mistake that its reader can mend: one line that says what is wrong and what to do.

    The stage programs print it without a traceback and exit with code 1.
    """
