"""Writes the bundled model as other programs quantise it, and decodes what was written, by each format's definition.

Every writer takes the model's values and returns (tensors, fields of config.json, decoded values). The decoders read the packed
bytes only. Sources of the definitions: compressed_tensors (pack_to_int32, dequantize), ModelOpt (unified_export_hf, NVFP4QTensor),
mlx.core.quantize, AutoAWQ (packing order), AutoGPTQ and GPTQModel (qweight, qzeros, g_idx).
"""

import json
import shutil

import numpy

from test_cli import TINY
from test_gguf import read_safetensors, rounded_to_bf16, widened

E2M1 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "<f4")
E4M3 = numpy.array(
    [
        (-1 if code & 128 else 1) * ((code & 7) * 2.0**-9 if code & 120 == 0 else (8 + (code & 7)) * 2.0 ** ((code >> 3 & 15) - 10))
        for code in range(256)
    ],
    "<f4",
)  # codes 127 and 255 are NaN; no writer makes them


def bf16_bytes(values):
    return (numpy.ascontiguousarray(rounded_to_bf16(values)).view("<u4") >> 16).astype("<u2").tobytes()


def tensor(dtype, values):
    """A tensor as write_safetensors() takes it."""
    kinds = {"U8": "u1", "F8_E4M3": "u1", "I32": "<i4", "U32": "<u4", "I64": "<i8", "F16": "<f2", "F32": "<f4"}
    shape = list(values.shape)
    return (dtype, shape, bf16_bytes(values) if dtype == "BF16" else values.astype(kinds[dtype]).tobytes())


def values_of(folder=TINY):
    """The model in float32: experts as [E, out, in]."""
    stored, values = read_safetensors(folder), {}
    for name, kept in stored.items():
        if name.endswith("_blocks"):
            codes = numpy.frombuffer(kept[2], "u1").reshape(kept[1])
            scales = numpy.frombuffer(stored[name.replace("_blocks", "_scales")][2], "u1").reshape(kept[1][:3])
            pairs = numpy.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:3], 32)
            decoded = E2M1[pairs] * numpy.exp2(scales.astype("<f4") - 127)[..., None]
            values[name.removesuffix("_blocks")] = decoded.reshape(*codes.shape[:2], -1)
        elif not name.endswith("_scales"):
            values[name] = widened(kept)
    return values


def is_experts(name):
    return name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj")


def is_layer(name):
    return any(f"self_attn.{part}_proj.weight" in name for part in "qkvo")


# packings: matrices [rows, cols] to parts of tensors, and back


def nearest_e2m1(values):
    codes = numpy.abs(numpy.abs(values)[..., None] - E2M1[:8]).argmin(-1).astype("u1")
    return codes | ((values < 0) * 8).astype("u1")


def pack_nvfp4(values, factor):
    """Codes [rows, cols / 2] and E4M3 scales [rows, cols / 16]; a value is e2m1 * e4m3 * factor."""
    groups = values.reshape(*values.shape[:-1], -1, 16)
    wanted = numpy.abs(groups).max(-1) / 6 / factor
    scales = numpy.abs(wanted[..., None] - E4M3[:127]).argmin(-1).astype("u1")
    size = numpy.maximum(E4M3[scales] * factor, 1e-30)[..., None]
    codes = nearest_e2m1(groups / size).reshape(values.shape)
    return codes[..., ::2] | codes[..., 1::2] << 4, scales


def unpack_nvfp4(codes, scales, factor):
    pairs = numpy.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1, 16)
    values = E2M1[pairs].astype("<f8") * E4M3[scales][..., None] * numpy.float64(factor)
    return values.reshape(*codes.shape[:-1], -1)


def factor_of(values):
    """3 % more than the values need: MXFP4's powers of two divided by 448 are halfway between two BF16 numbers too often."""
    return numpy.float32(numpy.abs(values).max() / 6 / 448 * 1.03)


def little_words(codes, bits):
    """Packs along the last axis, the first element in the low bits."""
    per_word = 32 // bits
    parts = codes.reshape(*codes.shape[:-1], -1, per_word).astype("<u4")
    return (parts << (numpy.arange(per_word, dtype="<u4") * bits)).sum(-1, dtype="<u4")


def parts_of_words(words, bits):
    shifts = numpy.arange(32 // bits, dtype="<u4") * bits
    parts = words.view("<u4")[..., None] >> shifts & (2**bits - 1)
    return parts.reshape(*words.shape[:-1], -1)


def grouped(values, group):
    return values.reshape(*values.shape[:-1], -1, group)


def pack_affine(values, bits, group):
    """MLX: words, scales and biases in BF16 [rows, groups]; a value is scale * code + bias."""
    groups = grouped(values, group)
    low, high = groups.min(-1), groups.max(-1)
    scales = rounded_to_bf16(numpy.maximum(high - low, 1e-7) / (2**bits - 1))
    biases = rounded_to_bf16(low)
    codes = numpy.clip(numpy.rint((groups - biases[..., None]) / scales[..., None]), 0, 2**bits - 1)
    return little_words(codes.reshape(values.shape), bits), scales, biases


def unpack_affine(words, scales, biases, bits):
    codes = grouped(parts_of_words(words, bits), words.shape[-1] * (32 // bits) // scales.shape[-1])
    values = scales[..., None].astype("<f8") * codes + biases[..., None]
    return values.reshape(*words.shape[:-1], -1)


def zero_points(values, group, symmetric=False):
    """Scales in half precision and zero points [rows, groups], and 4-bit codes [rows, cols]."""
    groups = grouped(values, group)
    low, high = numpy.minimum(groups.min(-1), 0), numpy.maximum(groups.max(-1), 0)
    if symmetric:
        scales = numpy.maximum(numpy.abs(groups).max(-1) / 7, 1e-4).astype("<f2")
        zeros = numpy.full(scales.shape, 8)
    else:
        scales = numpy.maximum((high - low) / 15, 1e-4).astype("<f2")
        zeros = numpy.clip(numpy.rint(-low / scales), 1, 15).astype(int)
    codes = numpy.clip(numpy.rint(groups / scales[..., None].astype("<f4")) + zeros[..., None], 0, 15)
    return scales, zeros, codes.reshape(values.shape).astype("<u4")


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the row of each nibble of a word


def awq_words(codes):
    """[cols, rows] to [cols, rows / 8]."""
    return little_words(codes.reshape(*codes.shape[:-1], -1, 8)[..., AWQ_ORDER].reshape(codes.shape), 4)


def awq_parts(words):
    parts = parts_of_words(words, 4).reshape(*words.shape, 8)
    ordered = numpy.empty_like(parts)
    ordered[..., AWQ_ORDER] = parts
    return ordered.reshape(*words.shape[:-1], -1)


def pack_awq(values, group):
    scales, zeros, codes = zero_points(values, group)
    return {"qweight": awq_words(codes.T), "qzeros": awq_words(zeros.T.astype("<u4")), "scales": scales.T}


def unpack_awq(parts):
    codes, zeros = awq_parts(parts["qweight"]).astype("<f8"), awq_parts(parts["qzeros"]).astype("<f8")
    times = len(codes) // len(zeros)
    return ((codes - zeros.repeat(times, 0)) * parts["scales"].astype("<f8").repeat(times, 0)).T


def pack_gptq(values, group, offset, order=None):
    """order: a permutation of columns, whose groups are adjacent in it (desc_act)."""
    cols = values.shape[1]
    order = numpy.arange(cols) if order is None else order
    scales, zeros, codes = zero_points(values[:, order], group)
    group_of = numpy.empty(cols, int)
    group_of[order] = numpy.arange(cols) // group
    natural = numpy.empty_like(codes)
    natural[:, order] = codes
    return {
        "qweight": little_words(natural, 4).T,
        "qzeros": little_words(zeros.T.astype("<u4") - offset, 4),
        "scales": scales.T,
        "g_idx": group_of,
    }


def unpack_gptq(parts, offset):
    codes = parts_of_words(numpy.ascontiguousarray(parts["qweight"].T), 4).T.astype("<f8")
    zeros = parts_of_words(parts["qzeros"], 4).astype("<f8") + offset
    return ((codes - zeros[parts["g_idx"]]) * parts["scales"].astype("<f8")[parts["g_idx"]]).T


def pack_int4(values, group, symmetric):
    scales, zeros, codes = zero_points(values, group, symmetric)
    parts = {"weight_packed": little_words(codes, 4), "weight_scale": scales, "weight_shape": numpy.array(values.shape)}
    return parts if symmetric else parts | {"weight_zero_point": little_words(zeros.T.astype("<u4"), 4).T}


def unpack_int4(parts):
    codes = parts_of_words(parts["weight_packed"], 4).astype("<f8")
    scales = parts["weight_scale"].astype("<f8")
    zeros = 8.0
    if "weight_zero_point" in parts:
        zeros = parts_of_words(numpy.ascontiguousarray(parts["weight_zero_point"].T), 4).T[..., None]
    groups = codes.reshape(*scales.shape, -1)
    return ((groups - zeros) * scales[..., None]).reshape(codes.shape)


# writers of checkpoints


def add(tensors, module, parts, types, separator="."):
    for part, array in parts.items():
        tensors[f"{module}{separator}{part}"] = tensor(types[part], numpy.ascontiguousarray(array))


def split_experts(values, name, naming):
    """Modules of single experts and their matrices: gate and up apart, or together."""
    prefix = name[: name.rindex("experts.") + 8]
    part = name[len(prefix) :]
    for expert, matrix in enumerate(values[name]):
        bias = values[f"{name}_bias"][expert]
        if part == "gate_up_proj" and "gate" in naming:
            yield prefix + naming["gate"].format(expert), matrix[::2], bias[::2], (expert, slice(0, None, 2))
            yield prefix + naming["up"].format(expert), matrix[1::2], bias[1::2], (expert, slice(1, None, 2))
        else:
            yield prefix + naming[part].format(expert), matrix, bias, (expert, slice(None))


COMPRESSOR = {"gate": "{}.gate_proj", "up": "{}.up_proj", "down_proj": "{}.down_proj"}
GPTQ_MODEL = {"gate_up_proj": "gate_up.{}", "down_proj": "down.{}"}
UNSLOTH = {"gate_up_proj": "gate_up_projs.{}", "down_proj": "down_projs.{}"}


def by_module(values, naming, pack, unpack, types, bias_type="BF16"):
    """Packs q, k, v, o and the experts, a module for each expert."""
    tensors, decoded = {}, dict(values)
    for name, array in values.items():
        if is_experts(name):
            decoded[name] = numpy.empty(array.shape, "<f4")
            for module, matrix, bias, place in split_experts(values, name, naming):
                parts = pack(matrix)
                add(tensors, module, parts, types)
                tensors[f"{module}.bias"] = tensor(bias_type, bias)
                decoded[name][place] = unpack(parts)
        elif is_layer(name):
            parts = pack(array)
            add(tensors, name.removesuffix(".weight"), parts, types)
            decoded[name] = rounded_to_bf16(unpack(parts).astype("<f4"))
        elif not name.endswith("_proj_bias"):
            tensors[name] = tensor("BF16", array)
    return tensors, decoded


def compressed(weights, layout):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": layout,
            "quantization_status": "compressed",
            "config_groups": {"group_0": group | {"format": layout}},
            "ignore": ["lm_head"],
        }
    }


def nvfp4_of_compressed_tensors(values):
    types = {"weight_packed": "U8", "weight_scale": "F8_E4M3", "weight_global_scale": "F32", "input_global_scale": "F32"}

    def pack(matrix):
        inverse = numpy.float32(1) / factor_of(matrix)
        codes, scales = pack_nvfp4(matrix, 1 / inverse)
        one = numpy.array([inverse], "<f4")
        return {"weight_packed": codes, "weight_scale": scales, "weight_global_scale": one, "input_global_scale": one}

    def unpack(parts):
        return unpack_nvfp4(parts["weight_packed"], parts["weight_scale"], 1 / parts["weight_global_scale"][0].astype("<f8"))

    tensors, decoded = by_module(values, COMPRESSOR, pack, unpack, types)
    weights = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True, "dynamic": False}
    return tensors, compressed(weights, "nvfp4-pack-quantized"), decoded


def nvfp4_of_modelopt(values):
    """Experts in the names of transformers, transposed; one factor for all experts of a tensor."""
    types = {"weight": "U8", "weight_scale": "F8_E4M3", "weight_scale_2": "F32", "input_scale": "F32"}
    tensors, decoded = {}, dict(values)
    for name, array in values.items():
        if not is_experts(name) and not is_layer(name) and name != "lm_head.weight":
            tensors[name] = tensor("BF16", array)
            continue
        factor = factor_of(array)
        codes, scales = pack_nvfp4(array, factor)
        parts = {"weight": codes, "weight_scale": scales, "weight_scale_2": factor, "input_scale": factor}
        decoded[name] = unpack_nvfp4(codes, scales, factor).astype("<f4")
        if not is_experts(name):
            decoded[name] = rounded_to_bf16(decoded[name])
            add(tensors, name.removesuffix(".weight"), parts, types)
            continue
        for part, kept in parts.items():
            own = name if part == "weight" else f"{name}_{part}"
            tensors[own] = tensor(types[part], numpy.swapaxes(kept, 1, 2) if kept.ndim == 3 else kept)
    fields = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "producer": {"name": "modelopt", "version": "0.42.0"},
        "ignore": ["model.embed_tokens"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}}},
    }
    return tensors, {"quantization_config": fields}, decoded


def mlx(values, bits, group, mode="affine", dense_bits=None, scale_type="BF16"):
    """mode: of the experts. Dense layers, the router and the embedding have groups with an offset; the router has 8 bits."""
    tensors, decoded = {}, dict(values)
    for name, array in values.items():
        prefix = name[: name.rindex("experts.") + 8] if ".experts." in name else ""
        parts = {"gate_proj": slice(0, None, 2), "up_proj": slice(1, None, 2)} if "gate_up" in name else {"down_proj": slice(None)}
        if is_experts(name):
            decoded[name] = numpy.empty(array.shape, "<f4")
            for part, rows in parts.items():
                packed, decoded[name][:, rows] = packed_by_mlx(array[:, rows], bits, group, mode, scale_type)
                tensors |= {f"{prefix}{part}.{ending}": kept for ending, kept in packed.items()}
        elif name.endswith("_proj_bias"):
            tensors |= {f"{prefix}{part}.bias": tensor("BF16", array[:, rows]) for part, rows in parts.items()}
        elif array.ndim == 2:
            own = 8 if "router" in name else dense_bits or bits
            packed, matrix = packed_by_mlx(array, own, 64, "affine", scale_type)
            tensors |= {f"{name.removesuffix('.weight')}.{ending}": kept for ending, kept in packed.items()}
            decoded[name] = rounded_to_bf16(matrix)
        else:
            tensors[name] = tensor("BF16", array)
    fields = {"group_size": group, "bits": bits, "mode": mode}
    fields |= {f"model.layers.{n}.mlp.router": {"group_size": 64, "bits": 8} for n in range(6)}
    return tensors, {"quantization": fields, "quantization_config": fields}, decoded


def packed_by_mlx(array, bits, group, mode, scale_type):
    if mode == "affine":
        words, scales, biases = pack_affine(array, bits, group)
        packed = {"weight": tensor("U32", words), "scales": tensor(scale_type, scales), "biases": tensor(scale_type, biases)}
        return packed, unpack_affine(words, scales, biases, bits).astype("<f4")
    groups = grouped(array, 32)
    exponents = numpy.floor(numpy.log2(numpy.maximum(numpy.abs(groups).max(-1), 1e-30))) - 2
    words = little_words(nearest_e2m1(groups / numpy.exp2(exponents)[..., None]).reshape(array.shape), 4)
    scales = (exponents + 127).clip(0, 254).astype("u1")
    decoded = grouped(E2M1[parts_of_words(words, 4)], 32) * numpy.exp2(scales.astype("<f8") - 127)[..., None]
    return {"weight": tensor("U32", words), "scales": tensor("U8", scales)}, decoded.reshape(array.shape).astype("<f4")


WORDS = {"qweight": "I32", "qzeros": "I32", "scales": "F16", "g_idx": "I32"}


def awq(values):
    tensors, decoded = by_module(values, GPTQ_MODEL, lambda matrix: pack_awq(matrix, 32), unpack_awq, WORDS, "F16")
    return tensors, {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}}, decoded


def gptq(values, offset=1, orders_columns=False):
    random = numpy.random.default_rng(5)

    def pack(matrix):
        return pack_gptq(matrix, 32, offset, random.permutation(matrix.shape[1]) if orders_columns else None)

    tensors, decoded = by_module(values, GPTQ_MODEL, pack, lambda parts: unpack_gptq(parts, offset), WORDS, "F16")
    fields = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": orders_columns, "sym": False, "pack_dtype": "int32"}
    fields["checkpoint_format"] = "gptq" if offset else "gptq_v2"
    return tensors, {"quantization_config": fields}, decoded


def int4(values, symmetric):
    types = {"weight_packed": "I32", "weight_scale": "F16", "weight_shape": "I64", "weight_zero_point": "I32"}
    tensors, decoded = by_module(values, COMPRESSOR, lambda matrix: pack_int4(matrix, 32, symmetric), unpack_int4, types)
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": symmetric, "dynamic": False}
    return tensors, compressed(weights, "pack-quantized"), decoded


def fp8(values, per_row):
    """Also the experts. Dense layers stay E4M3 with a scale per row."""

    def pack(matrix):
        scale = numpy.abs(matrix).max(1 if per_row else None, keepdims=per_row) / 448
        codes = numpy.abs(numpy.abs(matrix / scale)[..., None] - E4M3[:127]).argmin(-1) | ((matrix < 0) * 128)
        return {"weight": codes, "weight_scale": scale.astype("<f4") if per_row else numpy.array([scale], "<f4")}

    def unpack(parts):
        return E4M3[parts["weight"]].astype("<f8") * parts["weight_scale"]

    tensors, decoded = by_module(values, COMPRESSOR, pack, unpack, {"weight": "F8_E4M3", "weight_scale": "F32"})
    for name in filter(is_layer, values):  # not rounded to BF16: nibble keeps codes and scales
        module = name.removesuffix(".weight")
        codes = numpy.frombuffer(tensors[name][2], "u1").reshape(values[name].shape)
        scale = numpy.frombuffer(tensors[module + ".weight_scale"][2], "<f4").reshape(-1, 1)
        decoded[name] = (E4M3[codes] * scale.astype("<f8")).astype("<f4")
    weights = {"num_bits": 8, "type": "float", "strategy": "channel" if per_row else "tensor", "symmetric": True, "dynamic": False}
    return tensors, compressed(weights, "float-quantized"), decoded


def write_folder(folder, tensors, fields):
    from test_fine_tunes import change_config, replace_tensors

    shutil.copytree(TINY, folder)
    replace_tensors(folder, tensors)
    change_config(folder, lambda config: config.pop("quantization_config"))
    change_config(folder, lambda config: config.update(fields))
    return folder


def config_of(folder=TINY):
    return json.loads((folder / "config.json").read_text())
