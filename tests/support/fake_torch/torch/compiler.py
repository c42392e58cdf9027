"""Says whether a region of the program is being compiled."""
is_on = False


def is_compiling():
    return is_on
