// Probes how operands of block-scaled products are made: weights from strips, activations from bfloat16.
#include "backend/cuda/verify/probes/codes.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/memory/pack.h"
#include "backend/cuda/ptx/quantise_block.h"
#include "backend/cuda/verify/blocks.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/probes/probes.h"
#include "backend/cuda/verify/values.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/e8m0.h"

namespace nibble::cuda::verify {
namespace {

using Result = ProbeFinding::Result;

ProbeFinding finding_of(const Comparison& comparison, const std::string& compared) {
  const KernelFinding& finding = comparison.finding();
  if (!finding.is_right()) return {Result::kOther, finding.at};
  return {Result::kOk, fmt::format("{}: {} numbers", compared, finding.num_compared)};
}

constexpr int kRows{256}, kTiles{5}, kCols{kTiles * kTileCols};

// Checks that the code of each column of a row was unpacked to the right bits of the right register.
void compare_row(Comparison& comparison, const std::vector<uint8_t>& codes,
                 const std::vector<uint32_t>& containers, const std::vector<uint32_t>& nibbles, int row) {
  for (int col = 0; col < kCols; ++col) {
    const size_t at = row * kCols + col;
    const uint32_t code = codes[at / 2] >> 4 * (at % 2) & 15;
    const int lane = row % 8 * 4 + col % 32 / 8, group = col % kTileCols / 32, neighbour = col % 8;
    const int thread = (row / kStripRows * kTiles + col / kTileCols) * 32 + lane,
              is_lower = row % kStripRows / 8;
    const int wide = place_of(BlockForm::kMxfp8, neighbour), packed = place_of(BlockForm::kMxfp4, neighbour);
    const uint32_t word = containers[8 * thread + 4 * group + 2 * (wide / 4) + is_lower];
    comparison.equal("container", row, col, word >> 8 * (wide % 4) & 0xFF, code << 2);
    const uint32_t packed_word = nibbles[4 * thread + 2 * group + is_lower];
    comparison.equal("nibble", row, col, packed_word >> 4 * packed & 15, code);
  }
}

}  // namespace

ProbeFinding probe_unpacking() {
  const OwnedStream stream;
  const std::vector<uint8_t> codes = random_codes(Values::kTypical, 1, size_t{kRows} * kCols / 2),
                             scales = random_scales(Values::kTypical, 2, size_t{kRows} * kCols / 32);
  const Strips strips = make_strips(Layout::kMxfp4, kRows, kCols);
  const DeviceArray<uint8_t> stored_codes(codes), stored_scales(scales), packed(strips.matrix_bytes());
  const DeviceArray<int> largest_scale(std::vector<int>{0});
  pack(stream, {stored_codes.data(), stored_scales.data(), 1, kRows, kCols, RowOrder::kAsStored, strips,
                packed.data(), largest_scale.data()});
  stream.wait();

  Comparison comparison;
  comparison.at("packed codes", [&] {
    const std::vector<uint8_t> bytes = packed.read(comparison, "strips");
    constexpr int kTileWords{128};  // 32 lanes with four words each
    std::vector<uint32_t> words;
    for (int strip = 0; strip < strips.num_strips; ++strip) {
      const uint8_t* from = bytes.data() + size_t{1} * strip * strips.strip_bytes;
      const size_t first = words.size();
      words.resize(first + kTiles * kTileWords);
      for (int tile = 0; tile < kTiles; ++tile, from += tile_bytes(Layout::kMxfp4)) {
        std::copy_n(from, kTileCodeBytes,
                    reinterpret_cast<uint8_t*>(words.data() + first + tile * kTileWords));
        for (int lane = 0; lane < 32; lane += lane % 4 == 0 ? 1 : 3) {  // lanes 4 n and 4 n + 1 have scales
          uint32_t word = 0;
          std::copy_n(from + kTileCodeBytes + lane / 4 * 4, 4, reinterpret_cast<uint8_t*>(&word));
          const int row = strip * kStripRows + lane / 4 + lane % 4 * 8;
          for (int group = 0; group < 2; ++group)
            comparison.equal("scale", row, 2 * tile + group, weight_scales(word, lane) >> 8 * group & 0xFF,
                             scales[row * (kCols / 32) + 2 * tile + group]);
        }
      }
    }
    const DeviceArray<uint32_t> device_words(words), containers(2 * words.size()), nibbles(words.size());
    unpack_codes(
        stream, {device_words.data(), containers.data(), nibbles.data(), static_cast<int>(words.size() / 4)});
    stream.wait();
    const std::vector<uint32_t> all_containers = containers.read(comparison, "containers"),
                                all_nibbles = nibbles.read(comparison, "nibbles");
    for (int row = 0; row < kRows; ++row) compare_row(comparison, codes, all_containers, all_nibbles, row);
  });
  return finding_of(comparison, "strips become containers, nibbles and scales");
}

// Checks that the GPU's codes equal the codes that the same functions give on the host, and that the two
// terms of MXFP8x2 add up to the number.
ProbeFinding probe_quantising() {
  constexpr int kNumBlocks{1001};  // not a multiple of the blocks per CTA
  const OwnedStream stream;
  Comparison comparison;
  for (const Values values : kAllValues)
    comparison.at(fmt::format("{} values", name(values)), [&] {
      std::vector<float> x;
      for (const uint16_t bits : random_bf16(values, 3, size_t{kNumBlocks} * 32)) x.push_back(float_of(bits));
      const DeviceArray<float> device_x(x);
      const DeviceArray<uint32_t> first(x.size() / 4), rest(x.size() / 4), nibbles(x.size() / 8);
      const DeviceArray<uint8_t> scales(size_t{kNumBlocks} * 3);
      quantise_blocks(
          stream, {device_x.data(), first.data(), rest.data(), nibbles.data(), scales.data(), kNumBlocks});
      stream.wait();
      const std::vector<uint32_t> all_first = first.read(comparison, "first"),
                                  all_rest = rest.read(comparison, "rest"),
                                  all_nibbles = nibbles.read(comparison, "nibbles");
      const std::vector<uint8_t> all_scales = scales.read(comparison, "scales");
      for (int block = 0; block < kNumBlocks; ++block) {
        float lanes[4][8];
        std::copy_n(x.begin() + 32 * block, 32, &lanes[0][0]);
        const auto [largest, scale, nibble_scale] = scales_of_block(lanes);
        const uint8_t* actual = all_scales.data() + 3 * block;
        comparison.equal("scale", block, 0, actual[0], scale);
        comparison.equal("scale of the rest", block, 0, actual[1], rest_scale(scale));
        comparison.equal("scale of MXFP4", block, 0, actual[2], nibble_scale);
        const double unit = to_float(E8m0{actual[0]}), rest_unit = to_float(E8m0{actual[1]});
        for (int lane = 0; lane < 4; ++lane) {
          const size_t eight = 4 * block + lane;
          const TwoTerms terms = quantise_two_terms(lanes[lane], largest);
          comparison.equal("codes 0-3", block, lane, all_first[2 * eight], terms.first.first);
          comparison.equal("codes 4-7", block, lane, all_first[2 * eight + 1], terms.first.second);
          comparison.equal("rest 0-3", block, lane, all_rest[2 * eight], terms.second.first);
          comparison.equal("rest 4-7", block, lane, all_rest[2 * eight + 1], terms.second.second);
          comparison.equal("nibbles", block, lane, all_nibbles[eight],
                           quantise_mxfp4(lanes[lane], largest, nibble_scale));
          for (int c = 0; c < 8; ++c) {
            const int place = place_of(BlockForm::kMxfp8, c);
            const auto code = [&](const std::vector<uint32_t>& words) {
              return double{
                  to_float(E4m3{static_cast<uint8_t>(words[2 * eight + place / 4] >> 8 * (place % 4))})};
            };
            // The sum of the two terms is exact, except that it may be off by up to 2^-14 times the scale
            // (`unit`) if the number is below 2^-6 times the scale.
            const double value = lanes[lane][c];
            comparison.near({"two terms", block, 8 * lane + c},
                            code(all_first) * unit + code(all_rest) * rest_unit, value,
                            std::abs(value) < 0x1p-6 * unit ? 0x1p-14 * unit : 0);
          }
        }
      }
    });
  return finding_of(comparison, "two terms are bfloat16, codes are the host's");
}

}  // namespace nibble::cuda::verify
