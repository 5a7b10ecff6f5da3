"""AGE: adaptive graph encoder (Cui, Zhou, Yang and Liu, KDD 2020)."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, normalize

from tuplet._check import InputError, check_int, check_number
from tuplet._seed import stream, torch_stream
from tuplet.baselines._contract import Baseline, Progress, Rows, checked_features_of, cluster_count, report
from tuplet.baselines._gcn import make_linear, pick_device
from tuplet.baselines._memory import check_memory
from tuplet.baselines._spectral import spectral_labels
from tuplet.baselines._pairs import PairSampler, rank_thresholds
from tuplet.filters import GraphFilter
from tuplet.graph import Graph
from tuplet.weights import laplacian
