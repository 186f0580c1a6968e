#include "backend/cuda/memory/uploader.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cuda/chip/wait.h"
#include "backend/cuda/ptx/block_codes.h"
#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/numbers/bf16.h"
#include "core/numbers/e4m3.h"
#include "core/program/log.h"
#include "core/text/bytes_text.h"

namespace nibble::cuda {
namespace {

constexpr size_t kPieceBytes{size_t{32} << 20}, kThreadBytes{size_t{1} << 20};

size_t matrix_elements(int rows, int cols) { return size_t{1} * rows * cols; }

size_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) << 10;
}

}  // namespace

void drop_all_pages(const MappedFiles& files) {
  for (const auto& file : files) file->drop_pages(file->bytes());
}

Uploader::Uploader(std::string source, MappedFiles dropped_files, int num_threads)
    : source_(std::move(source)),
      dropped_files_(std::move(dropped_files)),
      pool_(num_threads),
      staging_(kStagingBytes),
      largest_scale_(sizeof(int)) {
  check(cudaMemsetAsync(largest_scale_.as<void>(), 0, sizeof(int), stream_), "clearing a number");
  for (Half& half : halves_) half.pinned = PinnedBuffer(kPieceBytes);
  since_ = {};  // restarts the stopwatch after the pinning of buffers, which takes seconds
}

void Uploader::vectors(const Vector& first, int num, const IndexRange& part, float* to) {
  const MatrixSlice slice{{0, num}, part};
  if (first.format == Format::kF32) {
    copy(pieces_of({first.data, {sizeof(float), 1}, num, first.count}, slice),
         reinterpret_cast<uint8_t*>(to));
  } else {
    copy(pieces_of({first.data, {sizeof(Bf16), 1}, num, first.count}, slice), staging());
    widen(stream_, {staging_.as<uint16_t>(), to, num * part.count});
  }
}

void Uploader::zeros(int count, float* to) {
  check(cudaMemsetAsync(to, 0, static_cast<size_t>(count) * sizeof(float), stream_), "clearing biases");
}

void Uploader::rows(const Matrix& from, const char* what, __nv_bfloat16* to) {
  bring(bf16_of(from, what), 0, matrix_elements(from.rows, from.cols) * sizeof(Bf16),
        reinterpret_cast<uint8_t*>(to));
}

void Uploader::dense(const Matrix& from, const char* what, const MatrixSlice& slice, int first_row,
                     const Strips& to) {
  if (const auto* elements = std::get_if<Elements>(&from.stored);
      elements && elements->format == Format::kE4m3)
    return fp8(*elements, from.cols, slice, first_row, to);
  const Source source = bf16_of(from, what);
  const size_t row_bytes = from.cols * sizeof(Bf16);
  const int max_rows = static_cast<int>(kStagingBytes / row_bytes) / kStripRows * kStripRows;
  for (int row = 0; row < slice.rows.count; row += max_rows) {
    const int count = std::min(max_rows, slice.rows.count - row);
    bring(source, (slice.rows.first + row) * row_bytes, count * row_bytes, staging());
    const PackBf16Args args{staging_.as<uint16_t>(),  first_row + row, count,           slice.cols.count, to,
                            largest_scale_.as<int>(), from.cols,       slice.cols.first};
    to.layout == Layout::kBf16 ? pack(stream_, args) : quantise(stream_, args);
  }
}

// Uploads the values of the FP8 codes as bfloat16 numbers, which the GPU quantises to E4M3 with a scale of 1.
// This gives the original codes, because bfloat16 represents every E4M3 value exactly.
void Uploader::fp8(const Elements& from, int cols, const MatrixSlice& slice, int first_row,
                   const Strips& to) {
  NIBBLE_CHECK(to.layout == Layout::kE4m3, "FP8 weights for another layout");
  const size_t row_elements = cols;
  const int max_rows =
      std::max(static_cast<int>(kPieceBytes / (row_elements * sizeof(Bf16))) / kStripRows, 1) * kStripRows;
  std::vector<Bf16> numbers;
  for (int row = 0; row < slice.rows.count; row += max_rows) {
    const int count = std::min(max_rows, slice.rows.count - row), first = slice.rows.first + row;
    const auto* codes = static_cast<const E4m3*>(from.data) + first * row_elements;
    numbers.resize(count * row_elements);
    pool_.for_each(count, [&](ptrdiff_t item, int) {
      const size_t begin = item * row_elements;
      std::transform(codes + begin, codes + begin + row_elements, numbers.begin() + item * cols,
                     [](E4m3 code) { return to_bf16(to_float(code)); });
    });
    float* scales = const_cast<float*>(to.row_scales) + first_row + row;
    const auto copy_scales = [&](const float* values) {
      const size_t bytes = count * sizeof(float);
      copy({reinterpret_cast<const std::byte*>(values), bytes, bytes, 1}, reinterpret_cast<uint8_t*>(scales));
    };
    copy_scales(std::vector<float>(count, 1.0f).data());
    const size_t bytes = numbers.size() * sizeof(Bf16);
    copy({reinterpret_cast<const std::byte*>(numbers.data()), bytes, bytes, 1}, staging());
    pack_codes(stream_, {staging_.as<uint16_t>(), first_row + row, count, slice.cols.count, to,
                         largest_scale_.as<int>(), cols, slice.cols.first});
    copy_scales(from.row_scales + first);
  }
}

void Uploader::experts(const ExpertMatrices& from, const IndexRange& which, const MatrixSlice& slice,
                       RowOrder order, const Strips& to) {
  const Matrix& first = from.first;
  if (first.blocks() || first.format() != Format::kMxfp4)
    throw InputError("{}: the experts are {}, the CUDA backend needs MXFP4", source_, stored_name(first));
  const size_t code_bytes = matrix_elements(first.rows, first.cols) / 2,
               scale_bytes = matrix_elements(first.rows, first.cols) / 32;
  const int max_experts = static_cast<int>(kStagingBytes / (code_bytes + scale_bytes));
  NIBBLE_CHECK(max_experts > 0, "an expert of {} bytes", code_bytes);
  for (int expert = 0; expert < which.count; expert += max_experts) {
    const int count = std::min(max_experts, which.count - expert);
    uint8_t* scales = staging() + count * code_bytes;
    PackMxfp4Args args{staging(),
                       scales,
                       count,
                       slice.rows.count,
                       slice.cols.count,
                       order,
                       to,
                       const_cast<uint8_t*>(to.data) + expert * to.matrix_bytes(),
                       largest_scale_.as<int>()};
    const auto first_of = [&](size_t bytes) { return (which.first + expert) * bytes; };
    const auto all_of = [&](size_t bytes) { return count * bytes; };
    // Synthetic experts are generated whole, and then only the slice is packed.
    if (const auto* recipe = std::get_if<Recipe>(&first.stored)) {
      generate_on_device(recipe->data, first_of(code_bytes), all_of(code_bytes), staging());
      generate_on_device(recipe->scales, first_of(scale_bytes), all_of(scale_bytes), scales);
      args.stored_rows = first.rows;
      args.stored_cols = first.cols;
      args.first_row = slice.rows.first;
      args.first_col = slice.cols.first;
    } else {
      const Elements& elements = first.elements();
      const auto copy_slices = [&](const uint8_t* all, size_t bytes, ElementSize size, uint8_t* to_staging) {
        copy(pieces_of({all + first_of(bytes), size, first.rows, first.cols, count}, slice), to_staging);
      };
      copy_slices(static_cast<const uint8_t*>(elements.data), code_bytes, {1, 2}, staging());
      copy_slices(elements.scales, scale_bytes, {1, 32}, scales);
    }
    pack(stream_, args);
  }
}

void Uploader::finish(size_t weight_bytes) {
  int largest = 0;
  check(cudaMemcpyAsync(&largest, largest_scale_.as<int>(), sizeof(int), cudaMemcpyDeviceToHost, stream_),
        "reading a number");
  stream_.wait();
  if (largest > kLargestScale)
    throw InputError(
        "{}: a block of MXFP4 has the scale 2^{}, the CUDA backend supports up to 2^{}: try --backend cpu",
        source_, largest - 127, kLargestScale - 127);
  const double seconds = since_.seconds();
  drop_all_pages(dropped_files_);
  log::info(
      "loading {} used {} of the GPU's memory ({} of weights), and at most {} of the host's including files",
      source_, bytes_text(weight_bytes + kStagingBytes), bytes_text(weight_bytes),
      bytes_text(peak_resident_bytes()));
  if (num_copied_ == 0 || has_recipes_) return;
  const double rate = static_cast<double>(num_copied_) / seconds, max_rate = host_to_device_rate();
  log::info("{:.2f} GB to the GPU in {:.2f} s: {:.1f} GB/s, {:.0f} % of {:.1f} GB/s from pinned memory",
            static_cast<double>(num_copied_) / 1e9, seconds, rate / 1e9, 100 * rate / max_rate,
            max_rate / 1e9);
}

Uploader::Source Uploader::bf16_of(const Matrix& matrix, const char* what) const {
  if (matrix.blocks() || matrix.format() != Format::kBf16)
    throw InputError(
        "{}: {} is {}, the CUDA backend needs BF16 (FP8 also for qkv, o and lm_head): try --backend cpu or "
        "reference",
        source_, what, stored_name(matrix));
  if (const auto* recipe = std::get_if<Recipe>(&matrix.stored)) return {nullptr, &recipe->data};
  return {static_cast<const uint8_t*>(matrix.elements().data), nullptr};
}

double Uploader::host_to_device_rate() {
  constexpr int kCopies{16};
  const Stopwatch since;
  for (int copy = 0; copy < kCopies; ++copy)
    check(cudaMemcpyAsync(staging(), halves_[0].pinned.as<uint8_t>(), kPieceBytes, cudaMemcpyHostToDevice,
                          stream_),
          "measuring the rate of copies");
  stream_.wait();
  return kCopies * static_cast<double>(kPieceBytes) / since.seconds();
}

void Uploader::bring(const Source& from, size_t offset, size_t bytes, uint8_t* to) {
  if (from.words)
    generate_on_device(*from.words, offset, bytes, to);
  else
    copy({reinterpret_cast<const std::byte*>(from.data) + offset, bytes, bytes, 1}, to);
}

void Uploader::copy(const Pieces& from, uint8_t* to) {
  const size_t bytes = from.total();
  num_copied_ += bytes;
  // Copies bytes `first` to `last` - 1 to `into`, counted as if the pieces were one array.
  const auto gather = [&](size_t first, size_t last, uint8_t* into) {
    while (first < last) {
      const size_t piece = first / from.bytes, at = first % from.bytes;
      const size_t count = std::min(from.bytes - at, last - first);
      std::memcpy(into, from.data + piece * from.stride + at, count);
      into += count;
      first += count;
    }
  };
  // After large contiguous copies, drops the copied part of the files from the page cache. Small copies drop
  // nothing: the large page (folio) that holds a small vector also holds adjacent tensors, which are copied
  // later.
  const bool is_large = bytes >= MappedFile::kFolioBytes && from.count == 1;
  for (size_t done = 0; done < bytes; done += kPieceBytes) {
    const size_t count = std::min(kPieceBytes, bytes - done);
    Half& half = halves_[next_half_++ % 2];
    wait_until_ready([&] { return cudaEventQuery(half.is_free); }, "copying weights");
    pool_.for_each(static_cast<ptrdiff_t>((count + kThreadBytes - 1) / kThreadBytes), [&](ptrdiff_t item,
                                                                                          int) {
      const size_t first = static_cast<size_t>(item) * kThreadBytes;
      gather(done + first, done + std::min(first + kThreadBytes, count), half.pinned.as<uint8_t>() + first);
    });
    check(cudaMemcpyAsync(to + done, half.pinned.as<uint8_t>(), count, cudaMemcpyHostToDevice, stream_),
          "copying weights");
    check(cudaEventRecord(half.is_free, stream_), "copying weights");
    if (is_large) drop_pages_until(dropped_files_, {from.data + done, count});
  }
}

void Uploader::generate_on_device(const RandomWords& words, size_t offset, size_t bytes, uint8_t* to) {
  NIBBLE_CHECK(offset % 8 == 0, "bytes from {} on", offset);
  has_recipes_ = true;
  // Fills whole 8-byte words. Excess bytes are padding, or the next tensor overwrites them.
  fill(stream_,
       {reinterpret_cast<uint64_t*>(to), offset / 8, (bytes + 7) / 8, words.seed, words.mask, words.base});
}

}  // namespace nibble::cuda
