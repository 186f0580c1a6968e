#include "backend/cpu/kv_cache.h"

#include <algorithm>

#include "core/bf16.h"
#include "core/check.h"
#include "core/e4m3.h"

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

KvCache::KvCache(const Config& config, Format format, int num_full_pages, int num_sliding_pages)
    : storage_(num_bytes(config, format, num_full_pages, num_sliding_pages)) {
  std::byte* next = storage_.data();
  for (const LayerKind kind : config.layer_kinds) {
    const int num_pages = kind == LayerKind::kFull ? num_full_pages : num_sliding_pages;
    layers_.push_back({kind, format, next, num_pages, config.num_kv_heads, config.head_dim});
    next += layer_bytes(config, format, num_pages);
  }
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

size_t KvCache::num_bytes(const Config& config, Format format, int num_full_pages, int num_sliding_pages) {
  size_t bytes = 0;
  for (const LayerKind kind : config.layer_kinds)
    bytes += layer_bytes(config, format, kind == LayerKind::kFull ? num_full_pages : num_sliding_pages);
  return bytes;
}

}  // namespace nibble::cpu
