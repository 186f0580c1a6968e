#include "backend/cpu/kv_cache.h"

#include "core/check.h"

namespace nibble::cpu {
namespace {

size_t page_elements(const Config& config) {
  return size_t{2} * kPageTokens * config.num_kv_heads * config.head_dim;
}

size_t layer_elements(const Config& config, LayerKind kind, int num_full_pages, int num_sliding_pages) {
  return page_elements(config) * (kind == LayerKind::kFull ? num_full_pages : num_sliding_pages);
}

}  // namespace

Bf16* LayerKv::at(const PageTableView& pages, int position, int kv_head, int which) const {
  const int index = position / kPageTokens - pages.first_page;
  NIBBLE_CHECK(index >= 0 && index < std::ssize(pages.pages), "position {}: pages [{}, {})", position,
               pages.first_page, pages.first_page + std::ssize(pages.pages));
  const auto page = static_cast<ptrdiff_t>(pages.pages[index]);
  NIBBLE_CHECK(page < num_pages, "page {} of {}", page, num_pages);
  return data + ((page * 2 + which) * num_kv_heads + kv_head) * kPageTokens * head_dim;
}

KvCache::KvCache(const Config& config, int num_full_pages, int num_sliding_pages)
    : storage_(num_bytes(config, num_full_pages, num_sliding_pages)) {
  Bf16* next = storage_.as<Bf16>();
  for (const LayerKind kind : config.layer_kinds) {
    const int num_pages = kind == LayerKind::kFull ? num_full_pages : num_sliding_pages;
    layers_.push_back({kind, next, num_pages, config.num_kv_heads, config.head_dim});
    next += layer_elements(config, kind, num_full_pages, num_sliding_pages);
  }
}

size_t KvCache::num_bytes(const Config& config, int num_full_pages, int num_sliding_pages) {
  size_t num_elements = 0;
  for (const LayerKind kind : config.layer_kinds)
    num_elements += layer_elements(config, kind, num_full_pages, num_sliding_pages);
  return num_elements * sizeof(Bf16);
}

}  // namespace nibble::cpu
