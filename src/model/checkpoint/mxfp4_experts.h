// Converts experts of any type to the MXFP4 tensors that are written to a file.
#pragma once

#include <string>

#include "core/threads/thread_pool.h"
#include "model/checkpoint/tensor_source.h"
#include "model/stored_experts.h"

namespace nibble {

class Mxfp4Experts {
 public:
  Mxfp4Experts(std::string source, ExpertRounding rounding)
      : source_(std::move(source)), rounding_(rounding) {}

  // `spec` describes the codes or scales of experts. Throws InputError if they are not exact in MXFP4 and
  // must not be rounded.
  void check(const TensorSpec& spec, const StoredExperts& stored);
  // Writes the codes or the scales to `room`, which grows if necessary.
  StoredTensor read(const TensorSpec& spec, const StoredExperts& stored, Buffer& room);

 private:
  std::string source_;
  ExpertRounding rounding_;
  ThreadPool pool_{0};
};

}  // namespace nibble
