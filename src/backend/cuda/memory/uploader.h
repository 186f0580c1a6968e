#pragma once

#include <cuda_bf16.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/chip/stream_timer.h"
#include "backend/cuda/memory/pack.h"
#include "core/files/mapped_file.h"
#include "core/system/clock.h"
#include "core/threads/thread_pool.h"
#include "model/shares/share.h"
#include "model/weights.h"

namespace nibble::cuda {

inline constexpr size_t kStagingBytes{size_t{512} << 20};  // device memory used while loading

void drop_all_pages(const MappedFiles& files);

// Copies weights to the GPU through two pinned buffers: one is filled while the other is transferred. The GPU
// repacks the weights. Methods throw InputError for a format that no kernel reads; `what` names the matrix.
class Uploader {
 public:
  // `source` names the weights in messages. Pages of `dropped_files` are dropped from the page cache once
  // their content is copied.
  Uploader(std::string source, MappedFiles dropped_files, int num_threads);

  void vector(const Vector& from, float* to) { vectors(from, 1, {0, from.count}, to); }
  // Copies the elements `part` of each of `num` vectors, which are contiguous in memory. `first`: the first
  // of the vectors.
  void vectors(const Vector& first, int num, const IndexRange& part, float* to);
  void zeros(int count, float* to);
  void rows(const Matrix& from, const char* what, __nv_bfloat16* to);
  // Packs a slice of `from` into rows of `to`, from first_row on. The rows of the slice are first transferred
  // to the GPU with all their columns, or generated there if `from` is synthetic (Recipe in model/weights.h).
  void dense(const Matrix& from, const char* what, const MatrixSlice& slice, int first_row, const Strips& to);
  // Packs the whole matrix. An FP8 matrix keeps its codes and row scales.
  void dense(const Matrix& from, const char* what, int first_row, const Strips& to) {
    dense(from, what, {{0, from.rows}, {0, from.cols}}, first_row, to);
  }
  void experts(const ExpertMatrices& from, const IndexRange& which, const MatrixSlice& slice, RowOrder order,
               const Strips& to);
  // Throws InputError if an MXFP4 scale is too large for the layout. Logs the memory used for loading, and
  // the copy rate compared with that of plain copies from pinned memory.
  void finish(size_t weight_bytes);

 private:
  // Weights in host memory; if `data` is null, random words that the GPU generates.
  struct Source {
    const uint8_t* data{nullptr};
    const RandomWords* words{nullptr};
  };
  struct Half {
    PinnedBuffer pinned;
    OwnedEvent is_free{cudaEventDisableTiming};
  };

  uint8_t* staging() const { return staging_.as<uint8_t>(); }
  void fp8(const Elements& from, int cols, const MatrixSlice& slice, int first_row, const Strips& to);
  Source bf16_of(const Matrix& matrix, const char* what) const;
  double host_to_device_rate();
  void bring(const Source& from, size_t offset, size_t bytes, uint8_t* to);
  void copy(const Pieces& from, uint8_t* to);  // concatenates the pieces at `to`
  void generate_on_device(const RandomWords& words, size_t offset, size_t bytes, uint8_t* to);

  std::string source_;
  MappedFiles dropped_files_;
  ThreadPool pool_;
  OwnedStream stream_;
  DeviceBuffer staging_, largest_scale_;
  std::array<Half, 2> halves_;
  size_t next_half_{0}, num_copied_{0};
  bool has_recipes_{false};
  Stopwatch since_;
};

}  // namespace nibble::cuda
