// Writes a model as one GGUF file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/progress.h"
#include "core/thread_pool.h"
#include "formats/gguf.h"
#include "model/tensor_source.h"

namespace nibble {

struct GgufOptions {
  // The type of embedding, attention and head: kBf16 (F32 where BF16 would not be exact), kQ8_0 or kMxfp4
  // (llama.cpp's rule). The router, norms, biases and sinks are F32, which llama.cpp's kernels require; experts keep
  // their MXFP4 numbers.
  GgmlType dense{GgmlType::kBf16};
  std::optional<std::string> tokenizer_json, chat_template;
};

// Writes with the memory of one tensor. Throws InputError if the file exists, cannot be written, or GGUF cannot
// express the model.
void write_gguf(const TensorSource& source, const std::filesystem::path& file, const GgufOptions& options,
                ThreadPool& pool, const ReportProgress& report = {});

}  // namespace nibble
