"""CSV files that are tables to every program, and cells that no spreadsheet runs as a formula."""

import csv
import re
from typing import IO, Any

# with the full-width signs, which spreadsheets set up for Chinese or Japanese read as the narrow ones
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")


def spreadsheet_safe(cell: str) -> str:
    """The cell as text: with an apostrophe before what a spreadsheet would take for a formula.

    What has such apostrophes already gets one more, so that `spreadsheet_plain` gives every cell back.
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def spreadsheet_plain(cell: str) -> str:
    """The cell that `spreadsheet_safe` was given."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def csv_writer(file: IO[str]) -> Any:
    """A writer of rows that end in a line feed, in quotes where a cell holds a line feed or a carriage return.

    Python's own leaves a carriage return bare where rows do not end in one, and readers take it for the end of a row.
    """
    return csv.writer(_LineFeeds(file), lineterminator="\r\n")


class _LineFeeds:
    """Ends each row that a csv.writer writes with a line feed alone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, row: str) -> int:
        return self._file.write(row.removesuffix("\r\n") + "\n")
