#include "reference/kv_cache.h"

#include <algorithm>
#include <utility>

#include "backend/draft_tree.h"
#include "core/errors/check.h"
#include "model/page_layers.h"

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
      rows.push_back({*token++, place.position, run.full, run.sliding, std::move(place.path), run.adapter});
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

size_t KvCache::num_bytes(const Config& config, int num_pages) {
  return size_t{2} * num_page_layers(config) * num_pages * page_elements(config) * sizeof(float);
}

KvCache::KvCache(const Config& config, int num_pages) : storage_(num_bytes(config, num_pages)) {
  const std::vector<int> page_layer = page_layers(config);
  const size_t elements = num_pages * page_elements(config);  // of a layer's keys, or of its values
  for (size_t i = 0; i < page_layer.size(); ++i) {
    float* const keys = storage_.as<float>() + 2 * elements * page_layer[i];
    const auto pages_at = [&](float* first) {
      return View<float, 4>(first, {num_pages, config.num_kv_heads, kPageTokens, config.head_dim});
    };
    layers_.push_back({config.layer_kinds[i], pages_at(keys), pages_at(keys + elements)});
  }
}

}  // namespace nibble::reference
