#include "backend/cuda/device_weights.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/layout/pack.h"
#include "core/bytes_text.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/thread_pool.h"

namespace nibble::cuda {
namespace {

constexpr size_t kAlignment{256};

// Bump allocator over one buffer; without a buffer (null) it only adds up sizes.
class Arena {
 public:
  explicit Arena(uint8_t* base) : base_(base) {}
  uint8_t* take(size_t bytes) {
    uint8_t* place = base_ ? base_ + size_ : nullptr;
    size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  template <typename T>
  T* take_array(size_t count) {
    return reinterpret_cast<T*>(take(count * sizeof(T)));
  }
  Strips take_strips(Strips strips, int num_matrices = 1) {
    strips.data = take(static_cast<size_t>(num_matrices) * strips.matrix_bytes());
    if (strips.layout == Layout::kE4m3)
      strips.row_scales = take_array<float>(static_cast<size_t>(strips.rows));
    return strips;
  }
  size_t size() const { return size_; }

 private:
  uint8_t* base_;
  size_t size_{0};
};

// Assigns every tensor its place in the arena.
DeviceWeights place(const Config& config, const DenseFormats& dense, Arena& arena) {
  const int hidden = config.hidden, experts = config.num_experts;
  const int q = config.num_heads * config.head_dim, qkv = q + 2 * config.num_kv_heads * config.head_dim;
  const auto count = [](int a, int b = 1) { return static_cast<size_t>(a) * static_cast<size_t>(b); };
  DeviceWeights weights;
  weights.embedding = arena.take_array<__nv_bfloat16>(count(config.vocab, hidden));
  for (const LayerKind kind : config.layer_kinds) {
    DeviceLayer layer;
    layer.kind = kind;
    layer.attention_norm = arena.take_array<float>(count(hidden));
    layer.qkv = arena.take_strips(make_strips(layout_of(dense.qkv), qkv, hidden));
    layer.qkv_bias = arena.take_array<float>(count(qkv));
    layer.sinks = arena.take_array<float>(count(config.num_heads));
    layer.o = arena.take_strips(make_strips(layout_of(dense.attention_output), hidden, q));
    layer.o_bias = arena.take_array<float>(count(hidden));
    layer.mlp_norm = arena.take_array<float>(count(hidden));
    layer.router = arena.take_strips(router_strips(config));
    layer.router_bias = arena.take_array<float>(count(experts));
    layer.up = arena.take_strips(make_strips(Layout::kMxfp4, 2 * config.intermediate, hidden), experts);
    layer.up_bias = arena.take_array<float>(count(experts, 2 * config.intermediate));
    layer.down = arena.take_strips(make_strips(Layout::kMxfp4, hidden, config.intermediate), experts);
    layer.down_bias = arena.take_array<float>(count(experts, hidden));
    weights.layers.push_back(layer);
  }
  weights.final_norm = arena.take_array<float>(count(hidden));
  weights.unembedding = arena.take_strips(make_strips(layout_of(dense.unembedding), config.vocab, hidden));
  return weights;
}

void drop_all_pages(const MappedFiles& files) {
  for (const auto& file : files) file->drop_pages(file->bytes());
}

size_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) << 10;
}

// Copies weights from the host to the device and has them repacked there. A piece is copied into one pinned buffer
// while the other one's piece is on its way. Pages of `dropped_files` leave the page cache when they have been copied.
class Uploader {
 public:
  Uploader(const Weights& weights, const MappedFiles& dropped_files, int num_threads)
      : source_(weights.source),
        dropped_files_(dropped_files),
        pool_(num_threads),
        staging_(kStagingBytes),
        largest_scale_(sizeof(int)) {
    check(cudaMemsetAsync(largest_scale_.as<void>(), 0, sizeof(int), stream_), "clearing a number");
    for (Half& half : halves_) {
      half.pinned = PinnedBuffer(kPieceBytes);
      check(cudaEventCreateWithFlags(&half.is_free, cudaEventDisableTiming), "making an event");
    }
    since_ = {};  // the clock starts after pinning, which takes seconds
  }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;
  ~Uploader() {
    for (const Half& half : halves_) cudaEventDestroy(half.is_free);
  }

  void vector(const Vector& from, float* to) {
    const auto count = static_cast<size_t>(from.count);
    if (from.format == Format::kF32) {
      copy(from.data, count * sizeof(float), reinterpret_cast<uint8_t*>(to));
    } else {
      copy(from.data, count * sizeof(Bf16), staging());
      widen(stream_, {staging_.as<uint16_t>(), to, from.count});
    }
  }
  void rows(const Matrix& from, __nv_bfloat16* to) {
    bring(bf16_of(from, "the embedding"), 0, size_of(from.rows, from.cols) * sizeof(Bf16),
          reinterpret_cast<uint8_t*>(to));
  }
  // Packs the rows of `from` as rows first_row .. of `to`.
  void dense(const Matrix& from, const char* what, int first_row, const Strips& to) {
    const Source source = bf16_of(from, what);
    const size_t row_bytes = static_cast<size_t>(from.cols) * sizeof(Bf16);
    const int max_rows = static_cast<int>(kStagingBytes / row_bytes) / kStripRows * kStripRows;
    for (int row = 0; row < from.rows; row += max_rows) {
      const int count = std::min(max_rows, from.rows - row);
      bring(source, static_cast<size_t>(row) * row_bytes, static_cast<size_t>(count) * row_bytes, staging());
      const PackBf16Args args{staging_.as<uint16_t>(), first_row + row, count, from.cols, to,
                              largest_scale_.as<int>()};
      to.layout == Layout::kBf16 ? pack(stream_, args) : quantise(stream_, args);
    }
  }
  void experts(const ExpertMatrices& from, int num_experts, RowOrder order, const Strips& to) {
    const Matrix& first = from.first;
    if (first.blocks() || first.format() != Format::kMxfp4)
      throw InputError("{}: the experts are {}, the CUDA backend takes MXFP4", source_, stored_name(first));
    Source codes_source, scales_source;
    if (const auto* recipe = std::get_if<Recipe>(&first.stored)) {
      codes_source.words = &recipe->data;
      scales_source.words = &recipe->scales;
    } else {
      codes_source.data = static_cast<const uint8_t*>(first.elements().data);
      scales_source.data = first.elements().scales;
    }
    const size_t code_bytes = size_of(first.rows, first.cols) / 2,
                 scale_bytes = size_of(first.rows, first.cols) / 32;
    const int max_experts = static_cast<int>(kStagingBytes / (code_bytes + scale_bytes));
    NIBBLE_CHECK(max_experts > 0, "an expert of {} bytes", code_bytes);
    for (int expert = 0; expert < num_experts; expert += max_experts) {
      const auto count = static_cast<size_t>(std::min(max_experts, num_experts - expert));
      uint8_t* scales = staging() + count * code_bytes;
      bring(codes_source, static_cast<size_t>(expert) * code_bytes, count * code_bytes, staging());
      bring(scales_source, static_cast<size_t>(expert) * scale_bytes, count * scale_bytes, scales);
      pack(stream_,
           PackMxfp4Args{staging(), scales, static_cast<int>(count), first.rows, first.cols, order, to,
                         const_cast<uint8_t*>(to.data) + static_cast<size_t>(expert) * to.matrix_bytes(),
                         largest_scale_.as<int>()});
    }
  }
  // Throws InputError where a scale of MXFP4 is larger than the layout holds. Logs the rate that was reached, beside the rate of a plain copy
  // from pinned memory, and the memory that loading took.
  void finish(size_t weight_bytes) {
    int largest = 0;
    check(cudaMemcpyAsync(&largest, largest_scale_.as<int>(), sizeof(int), cudaMemcpyDeviceToHost, stream_),
          "reading a number");
    stream_.wait();
    if (largest > kLargestScale)
      throw InputError(
          "{}: a block of MXFP4 has the scale 2^{}, the CUDA backend takes up to 2^{}: try --backend cpu",
          source_, largest - 127, kLargestScale - 127);
    const double seconds = since_.seconds();
    drop_all_pages(dropped_files_);
    log::info("loading took {} of the GPU's memory ({} of weights), and at most {} of the host's with files",
              bytes_text(weight_bytes + kStagingBytes), bytes_text(weight_bytes),
              bytes_text(peak_resident_bytes()));
    if (num_copied_ == 0 || has_recipes_) return;
    const double rate = static_cast<double>(num_copied_) / seconds, max_rate = host_to_device_rate();
    log::info("{:.2f} GB to the GPU in {:.2f} s: {:.1f} GB/s, {:.0f} % of {:.1f} GB/s from pinned memory",
              static_cast<double>(num_copied_) / 1e9, seconds, rate / 1e9, 100 * rate / max_rate,
              max_rate / 1e9);
  }

 private:
  static constexpr size_t kPieceBytes{size_t{32} << 20};
  static constexpr size_t kThreadBytes{size_t{1} << 20};
  struct Half {
    PinnedBuffer pinned;
    cudaEvent_t is_free{nullptr};
  };

  static size_t size_of(int rows, int cols) { return static_cast<size_t>(rows) * static_cast<size_t>(cols); }
  uint8_t* staging() const { return staging_.as<uint8_t>(); }

  // Bytes come from memory of the host, or from a recipe, by which the device generates them.
  struct Source {
    const uint8_t* data{nullptr};
    const RandomWords* words{nullptr};
  };
  Source bf16_of(const Matrix& matrix, const char* what) const {
    if (matrix.blocks() || matrix.format() != Format::kBf16)
      throw InputError("{}: {} is {}, the CUDA backend takes BF16: try --backend cpu or reference", source_,
                       what, stored_name(matrix));
    if (const auto* recipe = std::get_if<Recipe>(&matrix.stored)) return {nullptr, &recipe->data};
    return {static_cast<const uint8_t*>(matrix.elements().data), nullptr};
  }

  // Bytes per second of a plain copy from a pinned buffer.
  double host_to_device_rate() {
    constexpr int kCopies{16};
    const Stopwatch since;
    for (int copy = 0; copy < kCopies; ++copy)
      check(cudaMemcpyAsync(staging(), halves_[0].pinned.as<uint8_t>(), kPieceBytes, cudaMemcpyHostToDevice,
                            stream_),
            "measuring how fast bytes are copied");
    stream_.wait();
    return kCopies * static_cast<double>(kPieceBytes) / since.seconds();
  }

  void bring(const Source& from, size_t offset, size_t bytes, uint8_t* to) {
    from.words ? generate_on_device(*from.words, offset, bytes, to) : copy(from.data + offset, bytes, to);
  }
  void copy(const void* from, size_t bytes, uint8_t* to) {
    num_copied_ += bytes;
    const auto* next = static_cast<const uint8_t*>(from);
    // Its neighbours in a folio would be read twice for a vector. They go when the matrix does, or in the end.
    const bool is_large = bytes >= MappedFile::kFolioBytes;
    for (size_t done = 0; done < bytes; done += kPieceBytes) {
      const size_t count = std::min(kPieceBytes, bytes - done);
      Half& half = halves_[next_half_++ % 2];
      check(cudaEventSynchronize(half.is_free), "copying weights");
      pool_.for_each(static_cast<ptrdiff_t>((count + kThreadBytes - 1) / kThreadBytes),
                     [&](ptrdiff_t item, int) {
                       const size_t first = static_cast<size_t>(item) * kThreadBytes;
                       std::memcpy(half.pinned.as<uint8_t>() + first, next + done + first,
                                   std::min(kThreadBytes, count - first));
                     });
      check(cudaMemcpyAsync(to + done, half.pinned.as<uint8_t>(), count, cudaMemcpyHostToDevice, stream_),
            "copying weights");
      check(cudaEventRecord(half.is_free, stream_), "copying weights");
      if (is_large) drop_pages_until(dropped_files_, {static_cast<const std::byte*>(from) + done, count});
    }
  }

  void generate_on_device(const RandomWords& words, size_t offset, size_t bytes, uint8_t* to) {
    NIBBLE_CHECK(offset % 8 == 0, "bytes from {} on", offset);
    has_recipes_ = true;
    // Fills whole words. Bytes beyond the end are padding, or are overwritten by the tensor that follows.
    fill(stream_,
         {reinterpret_cast<uint64_t*>(to), offset / 8, (bytes + 7) / 8, words.seed, words.mask, words.base});
  }

  const std::string& source_;
  const MappedFiles& dropped_files_;
  ThreadPool pool_;
  OwnedStream stream_;
  DeviceBuffer staging_, largest_scale_;
  std::array<Half, 2> halves_;
  size_t next_half_{0}, num_copied_{0};
  bool has_recipes_{false};
  Stopwatch since_;
};

size_t bytes_of(const Strips& strips) {
  return strips.matrix_bytes() + (strips.row_scales ? static_cast<size_t>(strips.rows) * sizeof(float) : 0);
}
size_t bytes_of(const Matrix& matrix) {
  return matrix_bytes(matrix.format(), static_cast<size_t>(matrix.rows), static_cast<size_t>(matrix.cols));
}

void log_conversions(const Weights& weights, const DenseFormats& dense, const DeviceWeights& device) {
  size_t qkv_before = 0, qkv_after = 0, o_before = 0, o_after = 0;
  for (size_t l = 0; l < weights.layers.size(); ++l) {
    const LayerWeights& from = weights.layers[l];
    qkv_before += bytes_of(from.q) + bytes_of(from.k) + bytes_of(from.v);
    qkv_after += bytes_of(device.layers[l].qkv);
    o_before += bytes_of(from.o);
    o_after += bytes_of(device.layers[l].o);
  }
  const auto log = [](const char* group, Format before, Format after, size_t bytes_before,
                      size_t bytes_after) {
    if (after != Format::kBf16) log_conversion(group, before, after, bytes_before, bytes_after);
  };
  log("qkv", weights.layers.front().q.format(), dense.qkv, qkv_before, qkv_after);
  log("o", weights.layers.front().o.format(), dense.attention_output, o_before, o_after);
  log("lm_head", weights.unembedding.format(), dense.unembedding, bytes_of(weights.unembedding),
      bytes_of(device.unembedding));
}

}  // namespace

size_t device_weight_bytes(const Config& config, const DenseFormats& dense) {
  Arena arena(nullptr);
  place(config, dense, arena);
  return arena.size();
}

DeviceWeights upload(const Weights& weights, const DenseFormats& dense, int num_threads) {
  const Config& config = weights.config;
  // Where host and device share their memory, the weights and the page cache's copy of them would not fit together, and a cache that
  // is full of them, as after a download, leaves the driver none to give. Elsewhere the cache makes a second start faster.
  const MappedFiles dropped_files = device_caps().is_integrated ? weights.files : MappedFiles{};
  drop_all_pages(dropped_files);
  DeviceBuffer storage(device_weight_bytes(config, dense));
  Arena arena(storage.as<uint8_t>());
  DeviceWeights device = place(config, dense, arena);
  device.storage = std::move(storage);

  Uploader uploader(weights, dropped_files, num_threads);
  uploader.rows(weights.embedding, device.embedding);
  const int q_rows = config.num_heads * config.head_dim, kv_rows = config.num_kv_heads * config.head_dim;
  for (size_t l = 0; l < weights.layers.size(); ++l) {
    const LayerWeights& from = weights.layers[l];
    const DeviceLayer& to = device.layers[l];
    uploader.vector(from.attention_norm, to.attention_norm);
    uploader.dense(from.q, "q", 0, to.qkv);
    uploader.dense(from.k, "k", q_rows, to.qkv);
    uploader.dense(from.v, "v", q_rows + kv_rows, to.qkv);
    uploader.vector(from.q_bias, to.qkv_bias);
    uploader.vector(from.k_bias, to.qkv_bias + q_rows);
    uploader.vector(from.v_bias, to.qkv_bias + q_rows + kv_rows);
    uploader.vector(from.sinks, to.sinks);
    uploader.dense(from.o, "o", 0, to.o);
    uploader.vector(from.o_bias, to.o_bias);
    uploader.vector(from.mlp_norm, to.mlp_norm);
    uploader.dense(from.router, "the router", 0, to.router);
    uploader.vector(from.router_bias, to.router_bias);
    uploader.experts(from.gate_up, config.num_experts, RowOrder::kGateAndUp, to.up);
    uploader.experts(from.down, config.num_experts, RowOrder::kAsStored, to.down);
    // The biases of all experts are contiguous.
    Vector up_bias = from.gate_up.first_bias, down_bias = from.down.first_bias;
    up_bias.count *= config.num_experts;
    down_bias.count *= config.num_experts;
    uploader.vector(up_bias, to.up_bias);
    uploader.vector(down_bias, to.down_bias);
  }
  uploader.vector(weights.final_norm, device.final_norm);
  uploader.dense(weights.unembedding, "the unembedding", 0, device.unembedding);
  uploader.finish(device.storage.bytes());
  log_conversions(weights, dense, device);
  return device;
}

}  // namespace nibble::cuda
