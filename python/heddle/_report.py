"""What a call found, as data and as text."""


class Report(dict):
    """The data that the command line prints with --json; print() shows its tables."""

    def __init__(self, text, data):
        super().__init__(data)
        self._text = text

    def __str__(self):
        return self._text
