"""Attention over positions: each rank keeps its own queries and fetches all keys and values (products.py)."""
import torch

from .errors import NotSupported
from .layout import Layout
from .positions import places
from .products import batch, product
from .stripe import count_of, layout_of, rule, striped


@rule(torch.nn.functional.scaled_dot_product_attention)
def _attention(function, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p:
        raise NotSupported("dropout of attention weights")
    if is_causal and not layout_of(query).is_plain(-2):
        attn_mask, is_causal = _causal(query, key), False
    operands = [query, key, value] + ([] if attn_mask is None else [attn_mask])
    ends = (("query", "channel"), ("key", "channel"), ("key", "value"), ("query", "key"))
    labels = [batch(x.ndim - 2) + list(names[-x.ndim:]) for x, names in zip(operands, ends)]
    return product(lambda *ready: function(*ready, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa), operands, labels,
                   batch(max(x.ndim for x in operands) - 2) + ["query", "value"], uncut=("key", "channel"))


def _causal(query, key):
    """Returns a mask (queries of this rank, all keys): true where the key's position is not after the query's."""
    layout, keys = layout_of(query), torch.arange(count_of(key, [key.ndim - 2]), device=key.device)
    return striped(places(query, query.ndim - 2).unsqueeze(1) >= keys, Layout([layout.dims[-2], ()], layout.extents))
