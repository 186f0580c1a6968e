// Reads safetensors: a length (u64, little-endian), a JSON header of that length, then the tensors' bytes.
//   {"NAME": {"dtype": "BF16", "shape": [2880, 4096], "data_offsets": [0, 23592960]}, ...,
//    "__metadata__": {"k": "v"}}
// Sources: the format description and the reference reader of huggingface/safetensors. Refuses what that
// reader refuses, and also an unknown field of an entry and a name that occurs twice in any object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/files/mapped_file.h"
#include "formats/container.h"

namespace nibble {

constexpr uint64_t kMaxSafetensorsHeaderBytes{100'000'000};  // the format's own limit

// Parses a whole file in memory. Returns the tensors in the order of their data. The tensors are views of
// `file` and may be unaligned for their dtype. `path` is for messages. Throws ContainerError.
std::vector<Tensor> parse_safetensors(std::span<const std::byte> file, const std::filesystem::path& path);

// The file stays mapped. Tensors whose offset is not a multiple of their element size are copied.
Container open_safetensors(MappedFile file);

}  // namespace nibble
