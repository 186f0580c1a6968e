// A model whose experts are converted to another format.
#pragma once

#include <memory>
#include <utility>

#include "core/threads/thread_pool.h"
#include "model/convert_experts.h"

namespace nibble::cpu {

inline std::shared_ptr<const Weights> with_experts(const std::shared_ptr<const Weights>& weights,
                                                   Format format) {
  ThreadPool pool(2);
  Weights decided = *weights;
  decide_experts(decided, {.asked = format, .runs = [](Format) { return true; }, .backend = "cpu"}, pool);
  decided.files.clear();  // else converting releases the mapped pages of the original, which tests still use
  Weights made = *convert_experts(std::make_shared<const Weights>(std::move(decided)), pool);
  made.storage = weights;
  return std::make_shared<const Weights>(std::move(made));
}

}  // namespace nibble::cpu
