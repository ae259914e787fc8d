"""The exception of this package."""


class Error(RuntimeError):
    """What Heddle throws.

    kind     "user": the program, the schedule or the data is wrong; "runtime": a device, a file, the memory or the
             arguments of a call; "internal": a bug of Heddle
    message  what is wrong, where, and by how much
    help     how to correct it; may be empty
    file, line   the line of the program that it is about; None and 0 where it is not known
    """

    def __init__(self, message, kind="user", help="", file=None, line=0):
        super().__init__(message)
        self.message, self.kind, self.help, self.file, self.line = message, kind, help, file, line

    def __str__(self):
        place = f"{self.file}:{self.line}: " if self.file else ""
        return f"{place}{self.message}" + (f"\n  help: {self.help}" if self.help else "")

    def __reduce__(self):
        return type(self), (self.message, self.kind, self.help, self.file, self.line)
