// Each 64-bit word of a tensor is (random & mask) + base, where random = random_bits(seed of the tensor,
// index of the word). mask and base repeat the same pattern for each element, and no sum carries into the
// next element. So any thread can generate any part with a few operations per 8 bytes, and the kinds of
// tensors differ only in mask and base:
//   MXFP4 codes   all bits random: the 16 values of E2M1, root mean square (rms) 2.93
//   E8M0 scales   one of four consecutive exponents
//   BF16 linear   sign and mantissa random, one of four consecutive exponents
//   BF16 norms    1 plus or minus 5 %
// Linear weights have an rms of about 1/sqrt(in), so that activations keep an rms of about 1 through all
// layers. All rows of a router have the same distribution, so that no expert is preferred.
#include "model/checkpoint/synthetic.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "core/errors/check.h"
#include "core/numbers/random.h"
#include "core/tensors/buffer.h"
#include "formats/mxfp4.h"
#include "model/bind_weights.h"

namespace nibble {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored as they are computed");

constexpr size_t kPieceBytes{size_t{1} << 22};  // bytes of a work item, which takes about a millisecond

struct Pattern {
  uint64_t mask, base;
};

constexpr uint64_t each16(uint64_t bits) { return bits * 0x0001000100010001u; }
constexpr uint64_t each8(uint64_t bits) { return bits * 0x0101010101010101u; }

// Mean squares of an element's factors; the product of these mean squares is the mean square of the element.
// A power of two from 2^e to 2^(e+3): 4^e * (1 + 4 + 16 + 64) / 4 = 21.25 * 4^e. A mantissa from 1 to 2:
// 2.32. An E2M1 value: 8.56.
const double kLinearRms{std::sqrt(21.25 * 2.32)};
const double kMxfp4Rms{std::sqrt(21.25 * 8.5625)};

// Returns the lowest of the four exponents (biased) with which elements have about this rms.
uint64_t lowest_exponent(double rms, double rms_of_pattern) {
  return static_cast<uint64_t>(127 + std::lround(std::log2(rms / rms_of_pattern)));
}

Pattern bf16_pattern(double rms) { return {each16(0x81FF), each16(lowest_exponent(rms, kLinearRms) << 7)}; }

Pattern pattern_of(const TensorSpec& spec) {
  const auto rms_for = [](uint64_t num_inputs) { return 1 / std::sqrt(static_cast<double>(num_inputs)); };
  switch (spec.kind) {
    case TensorKind::kNorm:
      return {each16(0x000F), each16(0x3F78)};  // values from 0.969 to 1.055
    case TensorKind::kBias:
      return bf16_pattern(0.05);
    case TensorKind::kSinks:
      return bf16_pattern(0.5);
    case TensorKind::kDense:  // the embedding gets rms 1: no product sums over it
      return bf16_pattern(spec.name == "model.embed_tokens.weight" ? 1 : rms_for(spec.shape[1]));
    case TensorKind::kCodes:
      return {~uint64_t{0}, 0};
    case TensorKind::kScales:
      return {each8(0x03), each8(lowest_exponent(rms_for(spec.shape[2] * kMxfp4BlockSize), kMxfp4Rms))};
  }
  NIBBLE_CHECK(false, "tensor kind {}", static_cast<int>(spec.kind));
}

uint64_t hash(std::string_view text) {  // FNV-1a
  uint64_t hash{0xCBF29CE484222325u};
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

struct Piece {  // bytes [first, first + count) of a tensor, at `data`; first is a multiple of 8
  std::byte* data;
  size_t first, count;
  Pattern pattern;
  uint64_t seed;
};

void fill(const Piece& piece) {
  const uint64_t first_word = piece.first / 8;
  const auto word = [&](size_t i) {
    return (random_bits(piece.seed, first_word + i) & piece.pattern.mask) + piece.pattern.base;
  };
  const size_t num_words = piece.count / 8;
  for (size_t i = 0; i < num_words; ++i) {
    const uint64_t value = word(i);
    std::memcpy(piece.data + 8 * i, &value, 8);
  }
  const uint64_t rest = word(num_words);
  std::memcpy(piece.data + 8 * num_words, &rest, piece.count % 8);
}

uint64_t seed_of(const TensorSpec& spec, uint64_t seed) { return random_bits(seed, hash(spec.name)); }

void add_pieces(const TensorSpec& spec, uint64_t seed, std::byte* data, std::vector<Piece>& pieces) {
  for (size_t first = 0; first < spec.num_bytes; first += kPieceBytes)
    pieces.push_back({data + first, first, std::min(kPieceBytes, spec.num_bytes - first), pattern_of(spec),
                      seed_of(spec, seed)});
}

// Fills all pieces, and calls `filled` after each piece. The calls never overlap.
void fill_on_all_cores(const std::vector<Piece>& pieces,
                       const std::function<void(size_t num_bytes)>& filled) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) {
      fill(pieces[i]);
      const std::lock_guard lock(mutex);
      filled(pieces[i].count);
    }
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < std::min<size_t>(std::thread::hardware_concurrency(), pieces.size()); ++i)
    helpers.emplace_back(work);
  work();
}

size_t aligned(size_t bytes) {
  return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
}

size_t storage_bytes(const std::vector<TensorSpec>& specs) {
  size_t bytes{0};
  for (const TensorSpec& spec : specs) bytes += aligned(spec.num_bytes);
  return bytes;
}

}  // namespace

Weights make_synthetic(const Config& config, const std::string& source, uint64_t seed,
                       const ReportProgress& report) {
  const std::vector<TensorSpec> specs = tensor_specs(config);
  // Each layer's experts are allocated separately, so that a backend can free them once it has packed them.
  const auto is_of_experts = [](const TensorSpec& spec) {
    return spec.kind == TensorKind::kCodes || spec.kind == TensorKind::kScales;
  };
  std::vector<TensorSpec> shared_specs;
  std::copy_if(specs.begin(), specs.end(), std::back_inserter(shared_specs), std::not_fn(is_of_experts));
  auto storage = std::make_shared<const Buffer>(storage_bytes(shared_specs));
  std::byte* next = storage->data();
  std::vector<Piece> pieces;
  std::vector<std::shared_ptr<const Buffer>> experts;  // sorted by layer, equally many per layer
  Weights weights = bind_weights(config, [&](const TensorSpec& spec) {
    std::byte* data = next;
    if (is_of_experts(spec)) {
      experts.push_back(std::make_shared<const Buffer>(spec.num_bytes));
      data = experts.back()->data();
    } else {
      next += aligned(spec.num_bytes);
    }
    add_pieces(spec, seed, data, pieces);
    return StoredTensor{data, spec.dtype};
  });
  const size_t tensors_per_layer = experts.size() / weights.layers.size();
  for (size_t n = 0; n < weights.layers.size(); ++n) {
    const auto own = experts.begin() + static_cast<ptrdiff_t>(n * tensors_per_layer);
    weights.layers[n].experts_storage = std::make_shared<const std::vector<std::shared_ptr<const Buffer>>>(
        own, own + static_cast<ptrdiff_t>(tensors_per_layer));
  }
  experts.clear();
  Meter meter(total_bytes(specs), report);
  fill_on_all_cores(pieces, [&](size_t num_bytes) { meter.add(num_bytes); });
  weights.source = source;
  weights.storage = std::move(storage);
  return weights;
}

Weights describe_synthetic(const Config& config, const std::string& source, uint64_t seed) {
  const auto is_vector = [](const TensorSpec& spec) {
    return spec.kind == TensorKind::kNorm || spec.kind == TensorKind::kBias ||
           spec.kind == TensorKind::kSinks;
  };
  std::vector<TensorSpec> vectors = tensor_specs(config);
  std::erase_if(vectors, std::not_fn(is_vector));
  auto storage = std::make_shared<const Buffer>(storage_bytes(vectors));
  std::byte* next = storage->data();
  std::vector<Piece> pieces;
  Weights weights = bind_weights(config, [&](const TensorSpec& spec) -> DescribedTensor {
    if (!is_vector(spec)) {
      const Pattern pattern = pattern_of(spec);
      return RandomWords{seed_of(spec, seed), pattern.mask, pattern.base};
    }
    std::byte* data = next;
    next += aligned(spec.num_bytes);
    add_pieces(spec, seed, data, pieces);
    return StoredTensor{data, spec.dtype};
  });
  fill_on_all_cores(pieces, [](size_t) {});
  weights.source = source;
  weights.storage = std::move(storage);
  return weights;
}

TensorSource synthetic_source(const Config& config, const std::string& source, uint64_t seed) {
  const auto read = [seed](const TensorSpec& spec, Buffer& room) {
    if (room.bytes() < spec.num_bytes) room = Buffer(spec.num_bytes);
    std::vector<Piece> pieces;
    add_pieces(spec, seed, room.data(), pieces);
    fill_on_all_cores(pieces, [](size_t) {});
    return StoredTensor{room.data(), spec.dtype};
  };
  return {.config = config,
          .name = source,
          .dtype = [](const TensorSpec& spec) { return spec.dtype; },
          .read = read};
}

}  // namespace nibble
