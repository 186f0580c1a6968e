// A small model for steps on the emulated GPU, and options to run it.
#pragma once

#include "backend/backend.h"
#include "model/config.h"
#include "tests/backend/fulfilment.h"

namespace nibble::cuda {

// Returns the config of a model with four KV heads and 2.5 tiles of intermediate columns.
inline Config four_heads() {
  Config config = *named_config("gpt-oss-20b");
  config.num_layers = 2;
  config.layer_kinds.resize(2);
  config.hidden = 128;
  config.intermediate = 160;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.num_experts = 4;
  config.experts_per_token = 2;
  config.vocab = 200;
  return config;
}

inline BackendOptions small_options() {
  BackendOptions options;
  options.num_pages = Fulfilment::kNumPages;
  options.max_batch_tokens = 128;
  options.num_threads = 1;
  return options;
}

}  // namespace nibble::cuda
