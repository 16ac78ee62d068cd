"""The `sf-ams` command. Its libraries are optional: without them it says what to install."""

from ..errors import MissingExtra


def main() -> None:
    """Run the command line; leaves with the install line where typer or rich are missing."""
    try:
        from .app import app
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("typer", "rich"):
            raise
        raise SystemExit(str(MissingExtra("cli", package))) from None
    app()
