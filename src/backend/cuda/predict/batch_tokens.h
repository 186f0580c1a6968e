// Default numbers of rows per step on a GPU, which depend on its memory and its speed.
#pragma once

#include "backend/cuda/chip/caps.h"

namespace nibble::cuda {

// Limit for the predicted time of a step of gpt-oss-120b with the default number of rows. The default is the
// largest of 8,192, 4,096 and 2,048 rows that keeps this limit, or 2,048 if none does. Larger steps make long
// prompts faster, but every running answer gets its next token only at the end of a step.
inline constexpr double kMostStepSeconds{0.75};

inline constexpr double kMostSpeed{0.9};  // fraction of prefill speed that default_rows_with_answers() keeps

// Returns whether the GPU has at least 64 GiB, which is enough for the workspace of large steps and the KV
// cache of many sequences.
bool has_much_memory(const DeviceCaps& caps);
// Returns the default number of rows of a step. If the GPU's speed is unknown, only its memory decides.
int default_batch_tokens(const DeviceCaps& caps);
// Returns the default number of prompt rows in a step with running answers. This is the smallest number, but
// at least 2,048, with which prompts are predicted to reach kMostSpeed times the speed that they reach with
// default_batch_tokens() rows.
int default_rows_with_answers(const DeviceCaps& caps);

}  // namespace nibble::cuda
