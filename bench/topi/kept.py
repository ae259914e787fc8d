"""Figures of families in a file, which is written with each row: a run that ended early goes on where it was."""
import json

from cases import CASES

TIMES = ("ours", "torch")


class Kept:
    """`names` says what the figures are of; without it a file is read alone."""

    def __init__(self, path, names=None):
        self.path = path
        kept = json.loads(path.read_text()) if path.exists() else {"rows": []}
        self._rows = {row["family"]: row for row in kept.pop("rows")}
        self.names = names or kept

    def rows(self):
        """In the order of the cases."""
        return [self._rows[family.title] for family in CASES if family.title in self._rows]

    def runs(self, title):
        row = self._rows.get(title)
        return row.get("runs", 1) if row else 0

    def forget(self, only):
        self._rows = {title: row for title, row in self._rows.items() if only not in title}

    def add(self, row):
        """One more run of a family: the least times count, and it is right if it always was."""
        before = self._rows.get(row["family"])
        merged = dict(row) | {"runs": self.runs(row["family"]) + 1}
        if before:
            merged["right"] = row["right"] and before["right"]
            for key in TIMES:
                if key in row and key in before:
                    merged[key] = min(row[key], before[key])
        self._rows[row["family"]] = merged
        self.path.write_text(json.dumps(self.names | {"rows": self.rows()}, indent=0) + "\n")
