"""The entry point `hawk-operator`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from hawk_api.settings import SettingsError
from hawk_operator.runtime.settings import OperatorSettings

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the operator; ends the process: 0 when asked to end, 1 on a failure, 2 on bad settings, 3 without
    the Lease that it had.
    """
    try:
        settings = OperatorSettings.read(sys.argv[1:] if arguments is None else arguments)
    except SettingsError as error:
        sys.stderr.write(f"{error.said()}\n")
        sys.exit(2)
    _log_to_stderr(settings)
    code = _run(settings)
    logging.shutdown()
    sys.stderr.flush()
    # Threads may still wait for an answer of the API server; nothing they could do is wanted any more.
    os._exit(code)


def _run(settings: OperatorSettings) -> int:
    from hawk_operator.manager.manager import Operator  # noqa: PLC0415 - bad settings are said without loading all this

    try:
        operator = Operator(settings)
    except Exception as error:  # noqa: BLE001 - said in one line: it is a matter of configuration
        sys.stderr.write(f"error: can't start: {type(error).__name__}: {error}\n")
        return 1

    def stop(number: int, _: object) -> None:
        logging.getLogger(__name__).info("%s: ending", signal.Signals(number).name)
        operator.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        return operator.run()
    except Exception:
        logging.getLogger(__name__).exception("the operator failed")
        return 1


class _Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def _log_to_stderr(settings: OperatorSettings) -> None:
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(_Json() if settings.log_format == "json" else text)
    logging.basicConfig(level=logging.DEBUG if settings.verbose else logging.INFO, handlers=[handler])
    for noisy in ("urllib3", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("kopf").setLevel(logging.DEBUG if settings.verbose else logging.CRITICAL)


if __name__ == "__main__":
    main()
