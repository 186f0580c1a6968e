// Checks of the append and attention kernels.
#include <algorithm>
#include <bit>
#include <utility>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/chip/wait.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/prepare.h"
#include "backend/cuda/verify/attention_truth.h"
#include "backend/cuda/verify/cache.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/same_bits.h"
#include "backend/cuda/verify/shapes.h"
#include "backend/cuda/verify/values.h"
#include "model/rope.h"

namespace nibble::cuda::verify {
namespace {

// Returns the runs of a decode step: one row per sequence, each at one of these positions. Many cases choose
// positions next to an edge of a page (32 positions) or of a chunk (256 positions).
std::vector<TestRun> decoding(std::initializer_list<int> positions) {
  std::vector<TestRun> runs;
  for (const int position : positions) runs.push_back({position, 1});
  return runs;
}
std::vector<TestRun> many_sequences(int count) {
  std::vector<TestRun> runs;
  for (int i = 0; i < count; ++i) runs.push_back({i * 37 % 300, 1});
  return runs;
}

// Returns a run of `num_known` known tokens and ten drafts after them. The drafts form branches that fork
// again, so a draft's ancestors are not contiguous.
TestRun tree(int first_position, int num_known) {
  std::vector<int> parents;
  for (int i = 0; i < num_known; ++i) parents.push_back(i - 1);
  for (const int parent : {-1, -1, 0, 1, 1, 3, 4, 6, 6, 8}) parents.push_back(num_known + parent);
  return {first_position, static_cast<int>(parents.size()), parents};
}

std::vector<AttendCase> attend_cases() {
  const auto page_edges =
      decoding({0, 1, 30, 31, 32, 33, 63, 64, 95, 126, 127, 128, 129, 158, 159, 160, 161});
  const auto chunk_edges = decoding(
      {223, 224, 254, 255, 256, 257, 287, 288, 510, 511, 512, 513, 767, 768, 1023, 1024, 2047, 2048});
  const std::vector<TestRun> prompts{{0, 300}, {45, 17}, {255, 3}, {1000, 1}, {31, 2}};
  const std::vector<TestRun> few{{0, 40}, {250, 10}};
  std::vector<AttendCase> cases;
  for (const int window : {0, 1, 2, 31, 32, 33, 100, 128, 256, 300})
    for (const auto& runs : {page_edges, chunk_edges, prompts}) cases.push_back({8, 2, window, runs});
  constexpr std::pair<int, int> kHeads[]{{1, 1}, {2, 1}, {6, 3}, {8, 1}, {16, 16}, {64, 8}};
  for (const auto& [heads, kv_heads] : kHeads)
    for (const int window : {0, 128}) {
      cases.push_back({heads, kv_heads, window, decoding({0, 40, 127, 300})});
      cases.push_back({heads, kv_heads, window, {{0, 33}, {100, 40}}});
      cases.push_back({heads, kv_heads, window, decoding({517})});
    }
  for (const Values values : kAllValues)
    for (const float sharpness : {0.0f, 8.0f, 1024.0f})
      for (const auto& runs : {decoding({5, 255, 600}), few})
        cases.push_back({6, 2, 0, runs, values, sharpness});
  for (const float sink : {-1e4f, -20.0f, 5.0f, 50.0f, 1e4f})
    for (const int window : {0, 128})
      for (const auto& runs : {decoding({0, 255, 300, 1500}), few})
        cases.push_back({8, 1, window, runs, Values::kTypical, 8, sink});
  // Adds draft trees at a page's start, end and middle, at edges of windows and chunks, and next to runs
  // without a tree.
  for (const int window : {0, 1, 2, 5, 32, 33, 128})
    for (const auto& runs : {std::vector<TestRun>{tree(0, 1), tree(32, 1), tree(22, 2), tree(27, 1), {40, 1}},
                             std::vector<TestRun>{tree(95, 1), {250, 5}, tree(250, 3), tree(505, 1)}})
      cases.push_back({8, 2, window, runs});
  cases.push_back({64, 8, 128, {tree(251, 1), tree(31, 1)}});
  cases.push_back({6, 2, 0, {tree(120, 2), tree(600, 1)}, Values::kTypical, 1024, 5, /*rows_per_launch=*/7});
  cases.push_back({2, 1, 0, many_sequences(512)});
  cases.push_back({2, 1, 128, many_sequences(512)});
  cases.push_back({2, 1, 0, {{0, 512}}});
  cases.push_back({2, 1, 128, {{700, 512}}});
  cases.push_back({2, 2, 0, {{0, 100}, {300, 100}}, Values::kTypical, 8, 0, /*rows_per_launch=*/37});
  // Adds rows of 32, 33 and 66 chunks. A CTA that merges chunks alone takes 32 at a time.
  cases.push_back({1, 1, 0, decoding({8191, 8192, 16700})});
  cases.push_back({8, 1, 0, decoding({131071})});
  // Adds rows of 79 and 73 chunks, which several CTAs merge through the mailbox. Each of these CTAs merges
  // all chunks of one head at a time, in batches of up to 72 chunks (kTileChunks).
  cases.push_back({1, 1, 0, decoding({20000})});
  cases.push_back({64, 8, 0, decoding({18500})});
  // Adds a row of 12 chunks, which several CTAs merge, in a step with rows of one chunk.
  cases.push_back({1, 1, 0, decoding({3000, 5, 40, 70})});
  // Adds values of 0, because a 0 in the mailbox must not be mistaken for a word that has not arrived.
  cases.push_back({1, 1, 0, decoding({2600}), Values::kZero, 8});
  cases.push_back({12, 2, 0, {tree(2400, 1)}});
  // Adds rows with more chunks than the launch has CTAs for a row, so each CTA takes several chunks. A row's
  // last chunk has one page, eight pages or another number of pages.
  cases.push_back({16, 16, 0, decoding({4095, 4096, 3000, 200, 4127})});
  cases.push_back({8, 1, 0, {{131070, 2}}});
  cases.push_back({8, 1, 128, decoding({131071, 100000})});
  uint64_t seed = 0;
  for (AttendCase& c : cases) c.seed = seed += 1000;
  return cases;
}

// Returns q, k and v in two parts, as qkv() stores them, with queries multiplied by c.sharpness. The second
// parts are zero in every second row or, if has_rest is false, in all rows.
std::vector<float> make_parts(const AttendCase& c, bool has_rest) {
  const size_t width = c.width(), count = c.num_tokens() * width;
  std::vector<float> parts = random_floats(c.values, c.seed + 900, 2 * count);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i % width < size_t{kHeadDim} * c.num_heads) parts[i] *= c.sharpness;
    if (i >= count && (!has_rest || i / width % 2)) parts[i] = 0;
  }
  return parts;
}

std::vector<float> make_sinks(const AttendCase& c) {
  auto sinks = random_floats(Values::kTypical, c.seed + 901, c.num_heads);
  for (float& sink : sinks) sink += c.sink;
  return sinks;
}

struct Step {  // a case's inputs and expected q, k, v, on host and GPU
  explicit Step(const AttendCase& step_case)
      : c(step_case),
        frequencies(rope_frequencies(RopeConfig{}, kHeadDim)),
        cache(c),
        parts(make_parts(c, has_rest())),
        truth(rotated_rows(c, cache.rows(), parts, frequencies)),
        device_frequencies(frequencies.frequencies),
        device_parts(parts) {
    if (has_rest()) return;
    const size_t half = parts.size() / 2;
    fill_on_device(device_parts.data() + half, 0xFF, half * sizeof(float), "poisoning the second part");
  }
  // Returns whether q, k and v have two parts. If not, the memory of the second part is poisoned.
  bool has_rest() const { return c.seed / 2000 % 2 == 0; }
  RopeInput rope() const { return {device_frequencies.data(), frequencies.concentration}; }

  const AttendCase& c;
  RopeFrequencies frequencies;
  TestCache cache;
  std::vector<float> parts;
  RotatedRows truth;
  DeviceArray<float> device_frequencies, device_parts;
};

// Checks that each row's key and value is in its slot, and that the rest of the cache is unchanged.
void check_appended(Comparison& comparison, const Step& step, const std::vector<uint16_t>& before,
                    const std::vector<uint16_t>& after) {
  std::vector<bool> is_own(before.size(), false);
  for (size_t row = 0; row < step.cache.rows().size(); ++row)
    for (int head = 0; head < step.c.num_kv_heads; ++head)
      for (const int which : {0, 1}) {
        const size_t place =
            step.cache.place(step.cache.rows()[row].run, step.cache.rows()[row].slot, head, which);
        const Rounded* expected = step.truth.key_or_value(row, head, which);
        for (size_t i = 0; i < kHeadDim; ++i) {
          is_own[place + i] = true;
          const char* what = which ? "value" : "key";
          const auto at = head * kHeadDim + static_cast<ptrdiff_t>(i), of_row = static_cast<ptrdiff_t>(row);
          if (step.c.kv == Format::kE4m3)
            comparison.near_e4m3({what, of_row, at}, float_of(after[place + i]), expected[i].number,
                                 expected[i].error);
          else
            comparison.near_bf16({what, of_row, at}, after[place + i], expected[i].number, expected[i].error);
        }
      }
  for (size_t i = 0; i < before.size(); ++i)
    if (!is_own[i]) comparison.equal("rest of the cache", 0, i, after[i], before[i]);
}

// Every second case stores results in an image. Returns the image's number of rows; 0: plain rows.
int image_rows_of(const AttendCase& c) { return c.seed / 1000 % 2 == 1 ? whole_eights(c.num_tokens()) : 0; }
size_t attended_elements(const AttendCase& c) {
  const int width = c.num_heads * kHeadDim;
  return image_rows_of(c) ? image_bytes(image_rows_of(c), width) / 2 : size_t{1} * c.num_tokens() * width;
}
// Returns where append() stores element i of a row's queries. A head's elements are contiguous.
size_t place_of_query(const AttendCase& c, size_t row, int i) {
  return first_of_tile(static_cast<int>(row), i / kHeadDim, c.num_heads, image_rows_of(c)) + i % kHeadDim;
}

// Returns the number of chunks of the case's longest row, rounded up to a power of two.
int max_chunks_of(const AttendCase& c) {
  int needed = 1;
  for (const TestRun& run : c.runs)
    for (const int last : {run.first_position, run.first_position + run.num_tokens - 1}) {
      const int reach = c.window ? std::min(last + 1, c.window + kPagePositions - 1) : last + 1;
      needed = std::max(needed, (reach / kPagePositions + kChunkPages) / kChunkPages);
    }
  int chunks = 1;
  while (chunks < needed) chunks *= 2;
  return std::min(chunks, kMaxChunks);
}

// Puts the keys and values of all rows into the cache on the host, computes attention over this cache, and
// compares a kernel's outputs `actual`, [T, query heads * D], with the result.
void check_attended(Comparison& comparison, Step& step, const std::vector<float>& sinks,
                    const std::vector<uint16_t>& actual) {
  step.truth.put_into(step.cache);
  const std::vector<Attended> expected = attended(step.c, step.cache, step.truth, sinks);
  const size_t width = step.c.num_heads * kHeadDim;
  for (size_t at = 0; at < expected.size(); ++at)
    comparison.near_bf16({"out", static_cast<ptrdiff_t>(at / width), static_cast<ptrdiff_t>(at % width)},
                         actual[at], expected[at].value, expected[at].bound);
}

std::vector<uint16_t> read_attended(Comparison& comparison, const AttendCase& c,
                                    const DeviceArray<uint16_t>& attended) {
  const std::vector<uint16_t> bits = attended.read(comparison, "out");
  return image_rows_of(c) ? from_image(bits, c.num_heads * kHeadDim, numbers_below(c.num_tokens())) : bits;
}

}  // namespace

void check_append(Comparison& comparison, const Subject& subject, const AttendCase& c) {
  Step step(c);
  step.cache.upload();
  const size_t width = c.num_heads * kHeadDim;
  const DeviceArray<uint16_t> queries(attended_elements(c));
  subject.run("checking append",
              AppendArgs{step.cache.input(), step.device_parts.data(), step.has_rest(), c.num_tokens(),
                         c.num_heads, c.num_kv_heads, step.rope(), step.cache.pages(),
                         rows_or_image(bf16(queries), image_rows_of(c))});
  check_appended(comparison, step, step.cache.bits(), step.cache.read(comparison));
  const auto actual = queries.read(comparison, "queries");
  for (size_t row = 0; row < step.cache.rows().size(); ++row)
    for (size_t i = 0; i < width; ++i) {
      const Rounded& expected = step.truth.query(row, 0)[i];
      comparison.near_bf16({"query", static_cast<ptrdiff_t>(row), static_cast<ptrdiff_t>(i)},
                           actual[place_of_query(c, row, static_cast<int>(i))], expected.number,
                           expected.error);
    }
}

void check_attend_rows(Comparison& comparison, const Subject& subject, const AttendCase& c) {
  Step step(c);
  const int T = c.num_tokens(), max_chunks = max_chunks_of(c);
  const auto sinks = make_sinks(c);
  if (!c.writes_kv()) step.truth.put_into(step.cache);  // in a step, append() does this before attend()
  step.cache.upload();
  const int rows_per_launch = std::min(T, c.rows_per_launch);
  const size_t launch_heads = size_t{1} * rows_per_launch * c.num_kv_heads;
  const DeviceArray<float> device_sinks(sinks), partials(launch_heads * max_chunks * kPartialFloats);
  const DeviceArray<unsigned> tickets(std::vector<unsigned>(launch_heads, 0));
  const auto num_partials = static_cast<int>(launch_heads) * max_chunks;
  const DeviceArray<float> mailbox(std::vector<float>(size_t{kPartialFloats} * num_partials, 0));
  const DeviceArray<uint16_t> out(attended_elements(c)), out_of_last(attended_elements(c)),
      out_of_crowd(attended_elements(c));
  check(cudaDeviceSynchronize(), "preparing a check");
  const auto attend = [&](const DeviceArray<uint16_t>& to, int mailbox_partials, const Subject& on) {
    for (int row = 0; row < T; row += rows_per_launch)
      on.row.launch(on.gpu, std::min(rows_per_launch, T - row),
                    AttendArgs{step.cache.input(), step.device_parts.data(), step.has_rest(), T, c.num_heads,
                               c.num_kv_heads, step.rope(), step.cache.pages(), c.window, device_sinks.data(),
                               c.writes_kv(), row, max_chunks, partials.data(), tickets.data(),
                               rows_or_image(bf16(to), image_rows_of(c)), mailbox.data(), mailbox_partials});
    wait_for_stream(subject.stream(), "checking attend_rows");
  };
  attend(out, num_partials, subject);
  attend(out_of_last, 0, subject);  // without a mailbox: the last CTA to finish merges all chunks
  Subject small = subject;          // with one SM, few CTAs make is_crowded true (attention/launch.h)
  small.gpu.target.num_multiprocessors = 1;
  attend(out_of_crowd, 0, small);

  for (const unsigned ticket : tickets.read(comparison, "tickets"))
    comparison.equal("ticket", 0, 0, ticket, 0);
  for (const float word : mailbox.read(comparison, "mailbox"))
    comparison.equal("mailbox", 0, 0, std::bit_cast<uint32_t>(word), 0);
  const auto before = step.cache.bits(), after = step.cache.read(comparison);
  check_appended(comparison, step, before, after);
  const std::vector<uint16_t> actual = read_attended(comparison, c, out),
                              of_last = read_attended(comparison, c, out_of_last),
                              of_crowd = read_attended(comparison, c, out_of_crowd);
  check_attended(comparison, step, sinks, actual);
  for (size_t at = 0; at < actual.size(); ++at) {
    comparison.equal("bits without a mailbox", 0, at, of_last[at], actual[at]);
    comparison.equal("bits of a crowd", 0, at, of_crowd[at], actual[at]);
  }
}

void check_attend_tiles(Comparison& comparison, const Subject& subject, const AttendCase& c) {
  if (c.has_trees()) return;  // attend_tiles() never gets rows of draft trees (step_input.cpp)
  Step step(c);
  const auto sinks = make_sinks(c);
  step.truth.put_into(step.cache);
  step.cache.upload();
  std::vector<TileInput> tiles;
  int first_row = 0;
  for (const TestRun& run : c.runs) {
    for (int i = 0; i < run.num_tokens; i += kTileRows)
      tiles.push_back({first_row + i, std::min(kTileRows, run.num_tokens - i)});
    first_row += run.num_tokens;
  }
  std::vector<uint16_t> queries(attended_elements(c), 0);
  for (size_t row = 0; row < step.cache.rows().size(); ++row)
    for (int i = 0; i < c.num_heads * kHeadDim; ++i)
      queries[place_of_query(c, row, i)] = to_bf16(step.truth.query(row, 0)[i].value).bits;
  const DeviceArray<float> device_sinks(sinks);
  const DeviceArray<TileInput> device_tiles(tiles);
  StepInput input = step.cache.input();
  input.tiles = device_tiles.data();
  constexpr int kFew[]{2, 3};
  const int num_tiles = static_cast<int>(tiles.size()) * c.num_kv_heads,
            all = subject.gpu.target.num_multiprocessors,
            most_sharing = std::max(num_tiles > all ? all : 0, kFew[1]);
  const DeviceArray<float> mailbox(std::vector<float>(size_t{kTileTotals} * most_sharing, 0));
  const auto run = [&](const KernelRow& row, int num_multiprocessors) {
    const DeviceArray<uint16_t> attended(queries);
    Subject on{row, subject.gpu};
    on.gpu.target.num_multiprocessors = num_multiprocessors;
    on.run(
        "checking attention in tiles", static_cast<int>(tiles.size()),
        AttendTilesArgs{input, c.num_heads, c.num_kv_heads, step.cache.pages(), c.window, device_sinks.data(),
                        rows_or_image(bf16(attended), image_rows_of(c)), mailbox.data()});
    return read_attended(comparison, c, attended);
  };
  const auto actual = run(subject.row, all);
  check_attended(comparison, step, sinks, actual);
  if (const KernelRow* row = row_by_mma(subject.row)) {
    const auto compare = [&](const char* name, const std::vector<uint16_t>& other) {
      compare_bits(comparison, name, c.num_heads * kHeadDim, actual, other);
    };
    compare("bits of attended", run(*row, all));
    // With fewer CTAs than tiles, several CTAs share a tile and exchange partial results.
    for (const int few : kFew)
      if (num_tiles > few) compare("bits of shared tiles", run(subject.row, few));
    for (const float word : mailbox.read(comparison, "mailbox"))
      if (std::bit_cast<uint32_t>(word)) comparison.equal("a word left in the mailbox", 0, 0, word, 0);
  }
}

KernelFinding check_cases(const KernelRow& row, const Target& target, const CaseLimits& limits,
                          CheckAttendCase* check_case) {
  prepare_kernels();
  Comparison comparison;
  const OwnedStream stream;
  const Subject subject{row, {stream, target}};
  for (AttendCase c : attend_cases()) {
    // Skips cases of several heads at far positions, which take too long.
    const bool is_long = c.num_heads > 1 && std::ranges::any_of(c.runs, [&](const TestRun& run) {
                           return run.first_position >= limits.num_positions;
                         });
    if (c.num_tokens() > limits.num_tokens || is_long) continue;
    c.kv = row.weights;
    comparison.at(c.text(), [&] { check_case(comparison, subject, c); });
  }
  return comparison.finding();
}

}  // namespace nibble::cuda::verify
