"""gpt-oss in float64, from the formulas in docs and OpenAI's paper: logits that do not depend on nibble's code."""

import numpy


def rope_tables(length, rope, theta, head_dim):
    """Cosines and sines [length, head_dim / 2] of YaRN without truncation."""
    half = head_dim // 2
    frequencies = theta ** (-numpy.arange(half) * 2 / head_dim)
    original = rope["original_max_position_embeddings"]

    def corner(rotations):
        return half * numpy.log(original / (rotations * 2 * numpy.pi)) / numpy.log(theta)

    low, high = corner(rope["beta_fast"]), corner(rope["beta_slow"])
    kept = 1 - numpy.clip((numpy.arange(half) - low) / (high - low), 0, 1)
    frequencies = frequencies / rope["factor"] * (1 - kept) + frequencies * kept
    angles = numpy.arange(length)[:, None] * frequencies[None]
    size = 0.1 * numpy.log(rope["factor"]) + 1
    return numpy.cos(angles) * size, numpy.sin(angles) * size


def normed(x, weight, epsilon):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def rotated(x, cosines, sines):
    first, second = numpy.split(x, 2, axis=-1)
    cosines, sines = cosines[:, None], sines[:, None]
    return numpy.concatenate([first * cosines - second * sines, second * cosines + first * sines], -1)


def attended(q, k, v, sinks, window):
    """q [T, heads, D], k and v [T, kv heads, D]; window: None for full attention."""
    length, heads, dim = q.shape
    row, col = numpy.mgrid[:length, :length]
    seen = (col <= row) & ((row - col < window) if window else True)
    out = numpy.empty_like(q)
    for head in range(heads):
        of_head = head // (heads // k.shape[1])
        scores = numpy.where(seen, q[:, head] @ k[:, of_head].T / numpy.sqrt(dim), -numpy.inf)
        scores = numpy.concatenate([scores, numpy.full((length, 1), sinks[head])], 1)
        weights = numpy.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        out[:, head] = weights[:, :-1] @ v[:, of_head]
    return out.reshape(length, -1)


def mixed(x, routes, layer, num_chosen, limit):
    """The weighted sum of the chosen experts, for each token."""
    out = numpy.zeros_like(x)
    for token, scores in enumerate(routes):
        chosen = numpy.argsort(-scores, kind="stable")[:num_chosen]
        weights = numpy.exp(scores[chosen] - scores[chosen].max())
        for expert, weight in zip(chosen, weights / weights.sum()):
            both = layer["experts.gate_up_proj"][expert] @ x[token] + layer["experts.gate_up_proj_bias"][expert]
            gate, up = numpy.minimum(both[::2], limit), numpy.clip(both[1::2], -limit, limit)
            hidden = (up + 1) * gate / (1 + numpy.exp(-1.702 * gate))
            out[token] += weight * (layer["experts.down_proj"][expert] @ hidden + layer["experts.down_proj_bias"][expert])
    return out


def logits(values, config, ids):
    """values: arrays by Hugging Face's names; experts are [E, out, in] without _blocks and _scales. Returns [T, vocab]."""
    wide = {name: array.astype(numpy.float64) for name, array in values.items()}
    epsilon, dim = config["rms_norm_eps"], config["head_dim"]
    x = wide["model.embed_tokens.weight"][ids]
    cosines, sines = rope_tables(len(ids), config["rope_scaling"], config["rope_theta"], dim)
    for index, kind in enumerate(config["layer_types"]):
        prefix = f"model.layers.{index}."
        attention = {k[len(prefix) + 10 :]: v for k, v in wide.items() if k.startswith(prefix + "self_attn.")}
        mlp = {k[len(prefix) + 4 :]: v for k, v in wide.items() if k.startswith(prefix + "mlp.")}

        def linear(name, vectors):
            return vectors @ attention[f"{name}_proj.weight"].T + attention[f"{name}_proj.bias"]

        h = normed(x, wide[prefix + "input_layernorm.weight"], epsilon)
        q, k, v = (linear(name, h).reshape(len(ids), -1, dim) for name in "qkv")
        window = config["sliding_window"] if kind == "sliding_attention" else None
        q, k = rotated(q, cosines, sines), rotated(k, cosines, sines)
        x = x + linear("o", attended(q, k, v, attention["sinks"], window))
        h = normed(x, wide[prefix + "post_attention_layernorm.weight"], epsilon)
        routes = h @ mlp["router.weight"].T + mlp["router.bias"]
        x = x + mixed(h, routes, mlp, config["num_experts_per_tok"], config["swiglu_limit"])
    return normed(x, wide["model.norm.weight"], epsilon) @ wide["lm_head.weight"].T
