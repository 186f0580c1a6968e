// The default of --max-batch-tokens on a GPU, by its memory and its speed.
#pragma once

#include "backend/cuda/chip/caps.h"

namespace nibble::cuda {

// A step of more rows makes long prompts faster, but all other answers wait for it. No default step of
// gpt-oss-120b is predicted to take longer than this.
inline constexpr double kMostStepSeconds{0.75};

// At least 64 GB: room for the workspace of large steps and the KV cache of many sequences.
bool has_much_memory(const DeviceCaps& caps);
// A GPU of an unknown speed gets the rows that its memory suggests.
int default_batch_tokens(const DeviceCaps& caps);

}  // namespace nibble::cuda
