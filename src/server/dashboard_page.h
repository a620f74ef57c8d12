// The page of GET /dashboard: dashboard.html, as it is.
#pragma once

#include <string_view>

namespace ashlar::server {

extern const std::string_view kDashboardPage;

}  // namespace ashlar::server
