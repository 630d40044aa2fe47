"""A package, so that its files may have names that other folders of tests have, too."""
