// Dense matrices in fewer bits, made when a model is loaded. What the bytes are is defined here, for every backend:
//
//   FP8     code[c] = e4m3(w[c] / scale), nearest, ties to even      scale = max_c |w[c]| / 448, a float32 for each row
//   MXFP4   formats/mxfp4.h, the specification's rule
//
// Both divisions are IEEE float32. A row whose scale would be 0 (all of it is zero, or next to it) has the scale 1 and zero
// codes. A row that holds an infinity or a NaN has that as its scale: it shows in every product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/buffer.h"
#include "core/thread_pool.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// What dense matrices are held in: kE4m3, kMxfp4, or kBf16: as the checkpoint has them.
struct DenseFormats {
  Format qkv{Format::kBf16}, attention_output{Format::kBf16}, unembedding{Format::kBf16};
  friend bool operator==(const DenseFormats&, const DenseFormats&) = default;
};

// A row of finite values to codes of E4M3, as many; the scale is returned.
float quantise_e4m3(std::span<const float> row, std::span<uint8_t> codes);

// A matrix with bytes of its own.
struct QuantisedMatrix {
  Matrix matrix;
  Buffer storage;
};
// `matrix` is kF32 or kBf16, or has blocks, which are then read; `format` is kE4m3 or kMxfp4 (then its columns are whole blocks of 32).
QuantisedMatrix quantise(const Matrix& matrix, Format format, ThreadPool& pool);

// The same model with its dense matrices in these formats; the rest are views of `weights`, which lives on. Matrices are
// converted one by one: beside the results there is a row for each thread. Logs a line for each group. Throws InputError
// where a matrix has no whole blocks of MXFP4.
std::shared_ptr<const Weights> quantise_dense(std::shared_ptr<const Weights> weights,
                                              const DenseFormats& formats, ThreadPool& pool);

// Bytes of the matrices that quantise_dense converts: as released, and as they are then.
struct ConvertedBytes {
  size_t before{0}, after{0};
};
ConvertedBytes converted_bytes(const Config& config, const DenseFormats& formats);

// At level info, as who converts has done so: "qkv: BF16 to FP8, 42467328 bytes to 21270528".
void log_conversion(std::string_view group, Format before, Format after, size_t bytes_before,
                    size_t bytes_after);

}  // namespace nibble
