// LoRA adapters: low-rank updates of a model's matrices, from files of PEFT or of llama.cpp's converter.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/mapped_file.h"
#include "model/adapter/low_rank.h"
#include "model/config.h"

namespace nibble {

enum class AdaptedMatrix { kEmbedding, kQ, kK, kV, kO, kRouter, kGateUp, kDown, kUnembedding };
std::string_view name(AdaptedMatrix matrix);  // "q", "experts' gate_up"

std::string name_in(AdaptedMatrix matrix, int layer);  // "q of layer 3", "lm_head"

struct Extents {
  int rows, cols;
};
Extents extents_of(AdaptedMatrix matrix, const Config& config);  // for kGateUp and kDown: of one expert

struct MatrixUpdate {
  AdaptedMatrix matrix;
  int layer{0};   // 0 for kEmbedding and kUnembedding
  int expert{0};  // 0 unless the matrix is of experts
  LowRankUpdate update;
};

struct Adapter {
  std::string source;                   // the path, for messages
  std::vector<MatrixUpdate> updates;    // of matrices of the model; all values are finite
  std::shared_ptr<const void> storage;  // keeps the factors alive
  MappedFiles files;                    // mapped files that hold the factors
};

// Opens an adapter: the folder of a PEFT adapter (adapter_config.json and adapter_model.safetensors), its
// safetensors file, or a GGUF file. Checks every tensor's name and shape against the model. Throws
// InputError; its message names what nibble does not support.
Adapter open_adapter(const std::filesystem::path& path, const Config& config,
                     FileAccess access = FileAccess::kMap);

// Returns a text such as "rank 8, scale 2: q 6, v 6, experts' down 192". The numbers after the names count
// updates. `scale` multiplies the adapter's own scale.
std::string describe(const Adapter& adapter, float scale);

}  // namespace nibble
