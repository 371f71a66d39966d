package main

// The operator's image has no files but its own, so that the roots of certificate authorities are in the program. Those of the
// system count instead where there are any.
import _ "golang.org/x/crypto/x509roots/fallback"
