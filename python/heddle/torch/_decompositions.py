"""What AOTAutograd makes of operators: core ATen, less what Heddle has as operators, and layers that PyTorch fuses by itself."""

import torch

F = torch.nn.functional
aten = torch.ops.aten

_KEPT = (aten.hardswish, aten.hardsigmoid, aten.silu, aten.mish, aten.roll, aten._scaled_dot_product_flash_attention_for_cpu,
         aten.im2col, aten.col2im, aten.index_add)


def _attention(query, key, value, heads, weight, bias, mask):
    """Attention of several heads, before its last product. `weight` has those of queries, keys and values."""
    width = query.shape[-1]
    biases = [None] * 3 if bias is None else bias.split(width)
    q, k, v = (F.linear(x, w, b).unflatten(-1, (heads, width // heads)).transpose(1, 2)
               for x, w, b in zip((query, key, value), weight.split(width), biases))
    return F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)


def _mask(mask, mask_type):
    """The mask of scaled_dot_product_attention for that of the fused layers, which is not 0 for what is left out."""
    if mask is None:
        return None
    keep = mask.to(torch.bool).logical_not()
    return keep[:, None, None, :] if mask_type == 1 else keep  # 1: by words, 0: by pairs, 2: for each head


def _multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
                          need_weights=True, average_attn_weights=True, mask_type=None):
    if need_weights or query.is_nested:
        return NotImplemented
    result = _attention(query, key, value, num_head, qkv_weight, qkv_bias, _mask(mask, mask_type))
    return F.linear(result, proj_weight, proj_bias), query.new_empty(0)


def _encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
                   norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None):
    if src.is_nested:
        return NotImplemented
    norm1 = lambda x: F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)
    norm2 = lambda x: F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attention(x):
        return F.linear(_attention(x, x, x, num_heads, qkv_weight, qkv_bias, _mask(mask, mask_type)), proj_weight, proj_bias)

    def feed_forward(x):
        x = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(x) if use_gelu else x.relu(), ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attention(norm1(src))
        return src + feed_forward(norm2(src))
    src = norm1(src + attention(src))
    return norm2(src + feed_forward(src))


def decompositions():
    table = dict(torch._decomp.core_aten_decompositions())
    for op in _KEPT:
        for overload in op.overloads():
            table.pop(getattr(op, overload), None)
    table[aten._native_multi_head_attention.default] = _multi_head_attention
    table[aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    return table
