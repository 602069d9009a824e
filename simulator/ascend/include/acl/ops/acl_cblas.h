/* The simulator has no function of it; programs include it by habit. See ../acl.h. */
#pragma once

#include "acl/acl.h"
