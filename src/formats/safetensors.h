// safetensors: a length (u64, little-endian), a JSON header of that length, then the tensors' bytes, back to back.
//
//   {"NAME": {"dtype": "BF16", "shape": [2880, 4096], "data_offsets": [0, 23592960]}, ..., "__metadata__": {"k": "v"}}
//
// Source: the format description and the reference reader of huggingface/safetensors. As strict as that reader, and
// stricter in two points: a field of an entry that the format does not name is refused, and so is a name given twice
// anywhere, not only among tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/mapped_file.h"
#include "formats/container.h"

namespace nibble {

constexpr uint64_t kMaxSafetensorsHeaderBytes{100'000'000};  // the format's own limit

// The tensors of a whole file that lies in memory, in the order of their data, as views on it: not always aligned for
// their dtype. `path` is for messages. Throws ContainerError.
std::vector<Tensor> parse_safetensors(std::span<const std::byte> file, const std::filesystem::path& path);

// The same as a container that keeps the file mapped. The format aligns nothing: a tensor that does not begin at a
// multiple of its element's size is copied to where it does.
Container open_safetensors(MappedFile file);

}  // namespace nibble
