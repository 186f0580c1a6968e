// Writes a model as one GGUF file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/console/progress.h"
#include "core/threads/thread_pool.h"
#include "formats/gguf.h"
#include "model/checkpoint/tensor_source.h"
#include "model/checkpoint/text_file.h"

namespace nibble {

struct GgufOptions {
  // Type of embedding, attention and lm_head: kBf16 (F32 if BF16 is not exact), kQ8_0, or kMxfp4 by
  // Mxfp4Rule::kLlamaCpp. Router and vectors are F32, as llama.cpp's kernels require; experts stay MXFP4.
  GgmlType dense{GgmlType::kBf16};
  // Other files of the checkpoint. tokenizer.json and chat_template.jinja are converted to GGUF's own keys;
  // others are stored unchanged under gguf_key_of_file().
  std::vector<TextFile> files{};
};

// Returns the GGUF key of a file, such as "nibble.file.generation_config.json". Other readers skip unknown
// keys.
std::string gguf_key_of_file(std::string_view name);

// Writes a new GGUF file. Needs memory for one tensor. Throws InputError if the file exists or cannot be
// created, or if GGUF cannot express the model. After any exception, even one of `report`, removes the file.
void write_gguf(const TensorSource& source, const std::filesystem::path& file, const GgufOptions& options,
                ThreadPool& pool, const ReportProgress& report = {});

}  // namespace nibble
