// Quantises dense matrices when a model is loaded. The results are the same bytes in every backend:
//   FP8     code[c] = e4m3(w[c] / scale), nearest even; scale = max_c abs(w[c]) / 448, one float32 per row
//   MXFP4   formats/mxfp4.h, the specification's rule
// FP8's divisions are IEEE float32. A row whose scale would be 0 (all elements zero or tiny) gets scale 1 and
// zero codes. An infinity or NaN in a row becomes the row's scale, so that every product shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/tensors/buffer.h"
#include "core/threads/thread_pool.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// Formats to which dense matrices are converted at load: kE4m3 or kMxfp4. kBf16: stays as in the checkpoint.
struct DenseFormats {
  Format qkv{Format::kBf16}, attention_output{Format::kBf16}, unembedding{Format::kBf16};
  friend bool operator==(const DenseFormats&, const DenseFormats&) = default;
};

// Decodes a row of F32, BF16 or FP8 elements, of any blocks, or of another program's layout.
void read_row(const Matrix& matrix, size_t row, std::span<float> to);

// Returns whether all values are finite, and stay so in BF16: rounding turns the largest float32 numbers into
// infinity.
bool fit_in_bf16(std::span<const float> values);

// Converts a row of finite values to E4M3, one code per value; returns the scale.
float quantise_e4m3(std::span<const float> row, std::span<uint8_t> codes);

struct QuantisedMatrix {
  Matrix matrix;
  Buffer storage;
};
// Quantises F32, BF16 or FP8 elements, or any blocks, to kE4m3, or to kMxfp4 if rows are whole blocks of 32.
QuantisedMatrix quantise(const Matrix& matrix, Format format, ThreadPool& pool);

// Returns the model with its dense matrices in these formats. All other matrices are views of `weights`,
// which the result keeps alive. Converts one matrix at a time, with one row of extra memory per thread. Logs
// one line per group. Matrices that already have their format stay. Throws InputError if the rows of a matrix
// for MXFP4 are not whole blocks.
std::shared_ptr<const Weights> quantise_dense(std::shared_ptr<const Weights> weights,
                                              const DenseFormats& formats, ThreadPool& pool);

struct ConvertedBytes {  // size of the matrices that quantise_dense converts
  size_t before{0}, after{0};
};
ConvertedBytes converted_bytes(const Config& config, const DenseFormats& formats);

// Logs a conversion at level info: "qkv: BF16 to FP8, 42467328 bytes to 21270528".
void log_conversion(std::string_view group, Format before, Format after, size_t bytes_before,
                    size_t bytes_after);

}  // namespace nibble
