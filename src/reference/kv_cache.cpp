#include "reference/kv_cache.h"

#include <algorithm>
#include <utility>

#include "backend/draft_tree.h"
#include "core/check.h"

namespace nibble::reference {
namespace {

size_t page_elements(const Config& config) {
  return size_t{1} * config.num_kv_heads * kPageTokens * config.head_dim;
}

}  // namespace

std::vector<BatchRow> rows_of(const Batch& batch) {
  std::vector<BatchRow> rows;
  for (const Run& run : batch.runs) {
    auto token = run.tokens.begin();
    for (PlaceInRun& place : places_of(run))
      rows.push_back({*token++, place.position, run.full, run.sliding, std::move(place.path)});
  }
  return rows;
}

float* LayerKv::at(const View<float, 4>& pages, const BatchRow& row, int kv_head, int position) const {
  const PageTableView& table = kind == LayerKind::kFull ? row.full : row.sliding;
  const int slot = slot_of(position, row.position, row.path);
  const ptrdiff_t place = slot / kPageTokens - table.first_page;
  NIBBLE_CHECK(place >= 0 && place < std::ssize(table.pages), "slot {}, pages {} to {}", slot,
               table.first_page, table.first_page + std::ssize(table.pages));
  const auto page = static_cast<ptrdiff_t>(table.pages[place]);
  NIBBLE_CHECK(page < pages.shape[0], "page {} of {}", page, pages.shape[0]);
  return pages.row(page, kv_head, slot % kPageTokens);
}

void KvCache::move(const Run& run, int from, int to) const {
  const BatchRow there{.position = from, .full = run.full, .sliding = run.sliding},
      here{.position = to, .full = run.full, .sliding = run.sliding};
  for (const LayerKv& layer : layers_)
    for (int head = 0; head < layer.keys.shape[1]; ++head) {
      std::copy_n(layer.key(there, head, from), layer.keys.shape[3], layer.key(here, head, to));
      std::copy_n(layer.value(there, head, from), layer.values.shape[3], layer.value(here, head, to));
    }
}

size_t KvCache::num_bytes(const Config& config, int num_full_pages, int num_sliding_pages) {
  size_t num_pages = 0;
  for (const LayerKind kind : config.layer_kinds)
    num_pages += kind == LayerKind::kFull ? num_full_pages : num_sliding_pages;
  return 2 * num_pages * page_elements(config) * sizeof(float);
}

KvCache::KvCache(const Config& config, int num_full_pages, int num_sliding_pages)
    : storage_(num_bytes(config, num_full_pages, num_sliding_pages)) {
  float* next = storage_.as<float>();
  for (const LayerKind kind : config.layer_kinds) {
    const int num_pages = kind == LayerKind::kFull ? num_full_pages : num_sliding_pages;
    const auto take = [&] {
      const View<float, 4> pages(next, {num_pages, config.num_kv_heads, kPageTokens, config.head_dim});
      next += num_pages * page_elements(config);
      return pages;
    };
    layers_.push_back({kind, take(), take()});
  }
}

}  // namespace nibble::reference
