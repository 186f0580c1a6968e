// The files in this folder and its subfolders that browsers load. cmake/Page.cmake embeds them in the
// program.
#pragma once

#include <span>
#include <string_view>

namespace nibble::server {

struct PageFile {
  std::string_view name;  // "chat/chat.js", as in the URL /page/chat/chat.js
  std::string_view type;  // for Content-Type
  std::string_view hash;
  std::string_view text;
};

std::span<const PageFile> page_files();

}  // namespace nibble::server
