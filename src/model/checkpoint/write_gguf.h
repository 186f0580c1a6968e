// Writes a model as one GGUF file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/progress.h"
#include "core/thread_pool.h"
#include "formats/gguf.h"
#include "model/checkpoint/tensor_source.h"
#include "model/checkpoint/text_file.h"

namespace nibble {

struct GgufOptions {
  // Type of embedding, attention and lm_head: kBf16 (F32 if BF16 would not be exact), kQ8_0 or kMxfp4
  // (llama.cpp's rule). Router and vectors are F32, as llama.cpp's kernels require; experts stay MXFP4.
  GgmlType dense{GgmlType::kBf16};
  // Files of the checkpoint. GGUF has keys for the contents of tokenizer.json and chat_template.jinja; other
  // files are stored unchanged under gguf_key_of_file().
  std::vector<TextFile> files{};
};

// For example "nibble.file.generation_config.json". Readers skip keys that they do not know.
std::string gguf_key_of_file(std::string_view name);

// Writes with memory for one tensor. Throws InputError if the file exists or cannot be created, or if GGUF
// cannot express the model. On any exception, even from `report`, removes the file.
void write_gguf(const TensorSource& source, const std::filesystem::path& file, const GgufOptions& options,
                ThreadPool& pool, const ReportProgress& report = {});

}  // namespace nibble
