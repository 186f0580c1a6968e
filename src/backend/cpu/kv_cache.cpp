#include "backend/cpu/kv_cache.h"

#include <algorithm>

#include "core/errors/check.h"
#include "core/numbers/bf16.h"
#include "core/numbers/e4m3.h"
#include "model/page_layers.h"

namespace nibble::cpu {
namespace {

size_t layer_bytes(const Config& config, Format format, int num_pages) {
  return nibble::num_bytes(format,
                           size_t{2} * kPageTokens * config.num_kv_heads * config.head_dim * num_pages);
}

}  // namespace

std::byte* LayerKv::at(const PageTableView& pages, int position, int kv_head, int which) const {
  const int index = position / kPageTokens - pages.first_page;
  NIBBLE_CHECK(index >= 0 && index < std::ssize(pages.pages), "position {}: pages [{}, {})", position,
               pages.first_page, pages.first_page + std::ssize(pages.pages));
  const auto page = static_cast<size_t>(pages.pages[index]);
  NIBBLE_CHECK(page < static_cast<size_t>(num_pages), "page {} of {}", page, num_pages);
  return data + ((page * 2 + which) * num_kv_heads + kv_head) * kPageTokens * row_bytes();
}

void LayerKv::store(const float* row, std::byte* page, int position) const {
  std::byte* to = page + position % kPageTokens * row_bytes();
  if (format == Format::kE4m3)
    std::transform(row, row + head_dim, reinterpret_cast<E4m3*>(to), [](float x) { return to_e4m3(x); });
  else
    std::transform(row, row + head_dim, reinterpret_cast<Bf16*>(to), [](float x) { return to_bf16(x); });
}

KvCache::KvCache(const Config& config, Format format, int num_pages)
    : storage_(num_bytes(config, format, num_pages)) {
  const std::vector<int> page_layer = page_layers(config);
  for (size_t i = 0; i < page_layer.size(); ++i)
    layers_.push_back({config.layer_kinds[i], format,
                       storage_.data() + page_layer[i] * layer_bytes(config, format, num_pages), num_pages,
                       config.num_kv_heads, config.head_dim});
}

void KvCache::move(const Run& run, int from, int to) const {
  for (const LayerKv& layer : layers_) {
    const PageTableView& pages = layer.kind == LayerKind::kFull ? run.full : run.sliding;
    const auto move_row = [&](const std::byte* old_page, std::byte* new_page) {
      std::copy_n(old_page + from % kPageTokens * layer.row_bytes(), layer.row_bytes(),
                  new_page + to % kPageTokens * layer.row_bytes());
    };
    for (int head = 0; head < layer.num_kv_heads; ++head) {
      move_row(layer.keys(pages, from, head), layer.keys(pages, to, head));
      move_row(layer.values(pages, from, head), layer.values(pages, to, head));
    }
  }
}

size_t KvCache::num_bytes(const Config& config, Format format, int num_pages) {
  return num_page_layers(config) * layer_bytes(config, format, num_pages);
}

}  // namespace nibble::cpu
