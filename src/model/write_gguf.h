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
  // Of embedding, attention and head: kBf16 (F32 where the source holds more), kQ8_0 or kMxfp4 (llama.cpp's rule). The
  // router, norms, biases and sinks are F32, as llama.cpp's kernels ask for; experts are MXFP4, the same numbers.
  GgmlType dense{GgmlType::kBf16};
  std::optional<std::string> tokenizer_json, chat_template;
};

// Tensor by tensor, in the memory of one. Throws InputError where the file is there already, cannot be written, or GGUF has
// no word for what the model is.
void write_gguf(const TensorSource& source, const std::filesystem::path& file, const GgufOptions& options,
                ThreadPool& pool, const ReportProgress& report = {});

}  // namespace nibble
