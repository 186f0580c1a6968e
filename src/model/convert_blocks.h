// Converts matrices in ggml blocks to elements, for backends that do not take the blocks.
#pragma once

#include <functional>
#include <memory>

#include "core/progress.h"
#include "core/thread_pool.h"
#include "model/weights.h"

namespace nibble {

// A matrix [rows, cols] to BF16, to nearest even. Returns false where a value had to be rounded.
bool to_bf16(const Blocks& blocks, size_t rows, size_t cols, Bf16* to, ThreadPool& pool);
// Blocks of MXFP4 to separate codes and scales, the same numbers; a null pointer leaves one of them out.
void to_mxfp4(const Blocks& blocks, size_t rows, size_t cols, uint8_t* codes, uint8_t* scales,
              ThreadPool& pool);

// Converts those matrices of `weights` that are in blocks and for which `stays` is false: dense ones to BF16, experts to
// codes and scales. Reports bytes of elements, and logs a line for each group and type.
void convert_blocks(Weights& weights, const std::function<bool(const Matrix&)>& stays, ThreadPool& pool,
                    const ReportProgress& report = {});

// The same weights, converted for a backend. With `takes_blocks` the matrices stay as they are that backends can use or
// repack: the embedding, and Q8_0 and MXFP4 of all others but the router.
std::shared_ptr<const Weights> with_elements(std::shared_ptr<const Weights> weights, bool takes_blocks,
                                             ThreadPool& pool, const ReportProgress& report = {});

}  // namespace nibble
