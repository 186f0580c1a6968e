// Default numbers of rows of a step on a GPU, chosen by its memory and its speed.
#pragma once

#include "backend/cuda/chip/caps.h"

namespace nibble::cuda {

// Larger steps make long prompts faster, but all running answers wait for them. A default step of
// gpt-oss-120b is predicted to take at most this time, unless it already has the fewest rows.
inline constexpr double kMostStepSeconds{0.75};

inline constexpr double kMostSpeed{0.9};  // share of the speed of prompts in the largest steps

// True from 64 GB on: room for the workspace of large steps and the KV cache of many sequences.
bool has_much_memory(const DeviceCaps& caps);
// Returns the default number of rows. For a GPU of unknown speed, only its memory decides.
int default_batch_tokens(const DeviceCaps& caps);
// Returns the default number of prompt rows of a step with running answers: the fewest, from 2,048 on, with
// which prompts are predicted to be nearly as fast (kMostSpeed) as with default_batch_tokens() rows.
int default_rows_with_answers(const DeviceCaps& caps);

}  // namespace nibble::cuda
