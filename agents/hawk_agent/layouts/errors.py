"""The one exception of this package."""


class LayoutError(ValueError):
    """A layout, a pair of layouts, a buffer or a block table can't be used.

    The message names the field, both sides' values where there are two, and the remedy.
    Nothing has been written when it is raised.
    """
