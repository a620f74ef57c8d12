// The one place where Asio's own code is compiled (BOOST_ASIO_SEPARATE_COMPILATION): it would
// otherwise be compiled into every file that names it.
#include <boost/asio/impl/src.hpp>
