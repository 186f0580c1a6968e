// Converts matrices in ggml blocks, or in layouts of other programs, to plain elements, for backends that do
// not read them.
#pragma once

#include <functional>
#include <memory>

#include "core/console/progress.h"
#include "core/threads/thread_pool.h"
#include "model/weights.h"

namespace nibble {

// Converts a matrix [rows, cols] to BF16, ties to even. Returns false if a value had to be rounded.
bool to_bf16(const ForeignMatrix& matrix, size_t rows, Bf16* to, ThreadPool& pool);
bool to_bf16(const Blocks& blocks, size_t rows, size_t cols, Bf16* to, ThreadPool& pool);
// Destination of to_mxfp4(), which separates the codes and scales of blocks without changing a number.
struct Mxfp4Output {
  uint8_t *codes{nullptr}, *scales{nullptr};  // null: not written
};
void to_mxfp4(const Blocks& blocks, size_t rows, size_t cols, const Mxfp4Output& to, ThreadPool& pool);

// Converts the matrices of `weights` that are not elements and for which stays(matrix) is false: dense ones
// to BF16, experts to codes and scales. Reports progress in bytes of the results; logs one line per group and
// stored type.
void convert_blocks(Weights& weights, const std::function<bool(const Matrix&)>& stays, ThreadPool& pool,
                    const ReportProgress& report = {});

// Describes dense matrices of F32 as ggml blocks of that type, for backends without kernels for F32: they are
// then converted like those of a GGUF file. Returns whether there are any.
bool describe_f32_as_blocks(Weights& weights);

// Converts weights for a backend. With `takes_blocks`, matrices that a backend can use or repack stay blocks:
// embedding and experts in any type; other matrices, except the router, if they are Q8_0 or MXFP4.
std::shared_ptr<const Weights> with_elements(std::shared_ptr<const Weights> weights, bool takes_blocks,
                                             ThreadPool& pool, const ReportProgress& report = {});

}  // namespace nibble
