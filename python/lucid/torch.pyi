from typing import Any, Callable, Optional, Union

import torch

from . import Dataset, Network, Path, Progress

def from_torch(module: torch.nn.Module, features: Optional[int] = ...) -> Network: ...
def to_torch(network: Union[Network, Path]) -> torch.nn.Sequential: ...
def batches(ids: Any, epoch: int, count: int, seed: int = ...) -> list[torch.Tensor]: ...
def train(dataset: Union[Dataset, Path], make_model: Callable[[], torch.nn.Module],
          fit: Callable[[torch.nn.Module, torch.Tensor, torch.Tensor, torch.Tensor], Any],
          run: Path, *, seed: int = ..., processes: Optional[int] = ...,
          members: Optional[int] = ..., progress: Progress = ...,
          check: bool = ...) -> dict[str, Any]: ...
