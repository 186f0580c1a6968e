// Writes a model as a Hugging Face checkpoint folder.
#pragma once

#include <filesystem>
#include <vector>

#include "core/console/progress.h"
#include "model/checkpoint/tensor_source.h"
#include "model/checkpoint/text_file.h"

namespace nibble {

// Writes config.json, the index, shards of at most 5 GB, and `others`. Needs memory for one tensor. Throws
// InputError if the folder exists and is not empty. On any exception, even from `report`, removes its files.
void write_checkpoint(const TensorSource& source, const std::filesystem::path& folder,
                      const std::vector<TextFile>& others = {}, const ReportProgress& report = {});

}  // namespace nibble
