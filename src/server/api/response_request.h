// Reads requests to /v1/responses and /v1/responses/input_tokens.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "harmony/chat.h"
#include "server/api/generation_params.h"
#include "server/api/response_store.h"
#include "server/api/tools.h"

namespace nibble::server {

struct ResponseRequest {
  GenerationParams params;
  harmony::Chat chat;  // messages of the input only, without the previous response's
  std::vector<OfferedTool> offered;
  std::optional<std::string> previous_id;
  bool store{true};
  bool is_background{false};
  bool seals_reasoning{false};          // reasoning items have `encrypted_content`
  bool may_truncate{false};             // drop the oldest messages if the input is too long
  Json body;                            // the request without its input; the answer repeats parts of it
  std::vector<StoredItem> input_items;  // empty if `store` is false
};

// Replaces references to stored items by the items. find_item() returns an item's JSON. Throws HttpError
// (404) if find_item() returns null.
void resolve_references(Json& body,
                        const std::function<const std::string*(const std::string& id)>& find_item);

ResponseRequest read_response(Json body, const RequestDefaults& defaults = {});
ResponseRequest read_response_request(std::string_view body);

}  // namespace nibble::server
