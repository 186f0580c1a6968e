#include "backend/cuda/verify/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/draft_tree.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/random.h"

namespace nibble::cuda::verify {
namespace {

constexpr uint16_t kPoison{0xFFFF};
constexpr int kPageElements{kPagePositions * kHeadDim};  // elements of one head's keys in a page

std::vector<uint32_t> scattered(size_t count, uint64_t seed) {  // returns 0 to count - 1 in random order
  std::vector<uint32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0u);
  for (size_t i = count; i > 1; --i) std::swap(ids[i - 1], ids[random_bits(seed, i) % i]);
  return ids;
}

}  // namespace

int AttendCase::num_tokens() const {
  int sum = 0;
  for (const TestRun& run : runs) sum += run.num_tokens;
  return sum;
}

bool AttendCase::writes_kv() const {
  return std::ranges::all_of(runs, [](const TestRun& run) { return run.num_tokens == 1; });
}

bool AttendCase::has_trees() const {
  return std::ranges::any_of(runs, [](const TestRun& run) { return !run.parents.empty(); });
}

std::string AttendCase::text() const {
  return fmt::format(
      "{}/{} heads, window {}, {} runs, the first of {} tokens at {}{}, {} values, sharpness {}, sinks "
      "about {}",
      num_heads, num_kv_heads, window, runs.size(), runs[0].num_tokens, runs[0].first_position,
      has_trees() ? ", with trees" : "", name(values), sharpness, sink);
}

TestCache::TestCache(const AttendCase& c)
    : kv_(c.kv), num_kv_heads_(c.num_kv_heads), is_sliding_(c.window > 0), has_trees_(c.has_trees()) {
  size_t num_pages = 0;
  for (const TestRun& run : c.runs) {
    const int first_seen = c.window ? std::max(0, run.first_position - c.window + 1) : 0;
    const int first_page = first_seen / kPagePositions;
    const int end_page = (run.first_position + run.num_tokens - 1) / kPagePositions + 1;
    const std::vector<TokenId> tokens(run.num_tokens);
    int slot = run.first_position;
    for (PlaceInRun& place : places_of(
             {.tokens = tokens, .first_position = run.first_position, .drafted = {.parents = run.parents}}))
      rows_.push_back({place.position, static_cast<int>(tables_.size()), slot++, std::move(place.path)});
    tables_.push_back({first_page, std::vector<uint32_t>(end_page - first_page)});
    num_pages += tables_.back().pages.size();
  }
  const auto ids = scattered(num_pages + 3, c.seed);
  size_t next = 0;
  for (Table& table : tables_)
    for (uint32_t& page : table.pages) page = ids[next++];

  bits_.assign(ids.size() * 2 * num_kv_heads_ * kPageElements, kPoison);
  for (size_t run = 0; run < tables_.size(); ++run) {
    const int first = tables_[run].first_page * kPagePositions;
    const size_t count = c.runs[run].first_position - first;
    auto stream = random_bf16(c.values, c.seed + 1 + run, count * 2 * num_kv_heads_ * kHeadDim);
    if (kv_ == Format::kE4m3)
      for (uint16_t& bits : stream) bits = to_bf16(round_e4m3(double{float_of(bits)}, 0).value).bits;
    auto from = stream.begin();
    for (int position = first; position < c.runs[run].first_position; ++position)
      for (int head = 0; head < num_kv_heads_; ++head)
        for (const int which : {0, 1}) {
          std::copy_n(from, kHeadDim, bits_.begin() + place(static_cast<int>(run), position, head, which));
          from += kHeadDim;
        }
  }
}

size_t TestCache::place(int run, int slot, int kv_head, int which) const {
  const Table& table = tables_[run];
  const size_t page = table.pages[slot / kPagePositions - table.first_page];
  const size_t head = (2 * page + which) * num_kv_heads_ + kv_head;
  return head * kPageElements + slot % kPagePositions * kHeadDim;
}

void TestCache::upload() {
  // The cache has page tables for one kind of layer, full or sliding. kNoTable stands for the start of a
  // table of the other kind: a kernel that uses such a table reads far out of bounds.
  constexpr uint32_t kNoTable{0x80000000u};
  std::vector<uint32_t> page_ids;
  std::vector<uint32_t> first;  // for each run: start of its page table in page_ids, minus its first_page
  for (const Table& table : tables_) {
    first.push_back(static_cast<uint32_t>(page_ids.size()) - static_cast<uint32_t>(table.first_page));
    page_ids.insert(page_ids.end(), table.pages.begin(), table.pages.end());
  }
  std::vector<RowInput> rows;
  std::vector<int32_t> slots;
  std::vector<RowPath> paths;
  for (const CacheRow& row : rows_) {
    const uint32_t table = first[row.run];
    rows.push_back(
        {TokenInput::of(0), row.position, is_sliding_ ? kNoTable : table, is_sliding_ ? table : kNoTable});
    slots.push_back(row.slot);
    const int first_on_path = row.position + 1 - static_cast<int>(row.path.size());
    paths.push_back(row.path.empty() ? RowPath{kNoPath, 0}
                                     : RowPath{first_on_path, static_cast<uint32_t>(page_ids.size()) -
                                                                  static_cast<uint32_t>(first_on_path)});
    page_ids.insert(page_ids.end(), row.path.begin(), row.path.end());
  }
  std::vector<uint8_t> bytes(bits_.size() * num_bytes(kv_, 1));
  for (size_t i = 0; i < bits_.size(); ++i) {
    if (kv_ == Format::kE4m3)
      bytes[i] = bits_[i] == kPoison ? 0xFF : to_e4m3(float_of(bits_[i])).bits;
    else
      std::memcpy(&bytes[2 * i], &bits_[i], 2);
  }
  device_bytes_.emplace(bytes);
  device_rows_.emplace(rows);
  device_page_ids_.emplace(page_ids);
  device_slots_.emplace(slots);
  device_paths_.emplace(paths);
}

std::vector<uint16_t> TestCache::read(Comparison& comparison) const {
  const auto bytes = device_bytes_->read(comparison, "cache");
  std::vector<uint16_t> bits(bits_.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    if (kv_ == Format::kE4m3)
      bits[i] = bytes[i] == 0xFF ? kPoison : to_bf16(to_float(E4m3{bytes[i]})).bits;
    else
      std::memcpy(&bits[i], &bytes[2 * i], 2);
  }
  return bits;
}

}  // namespace nibble::cuda::verify
