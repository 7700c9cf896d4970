"""sealed-executor: the one gate through which side-effecting commands pass."""

TYPE_CHECKING = False  # importing typing would double the time of this import
if TYPE_CHECKING:
    from executor.config import Config
    from executor.embedding import BlockingExecutor, Executor, open_blocking, open_executor
    from executor.receipt import Receipt
    from executor.refusal import Refused, Unverified
    from executor.request import AskedBy, Request, SourceFile

_HOMES = {
    "AskedBy": "request",
    "BlockingExecutor": "embedding",
    "Config": "config",
    "Executor": "embedding",
    "Receipt": "receipt",
    "Refused": "refusal",
    "Request": "request",
    "SourceFile": "request",
    "Unverified": "refusal",
    "open_blocking": "embedding",
    "open_executor": "embedding",
}
__all__ = [
    "AskedBy",
    "BlockingExecutor",
    "Config",
    "Executor",
    "Receipt",
    "Refused",
    "Request",
    "SourceFile",
    "Unverified",
    "open_blocking",
    "open_executor",
]


def __getattr__(name: str) -> object:
    """Load a part when it is first used: `import executor` itself stays fast."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'executor' has no attribute {name!r}")
    return getattr(import_module(f"executor.{_HOMES[name]}"), name)
