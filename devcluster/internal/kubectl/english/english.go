// Package english makes kubectl speak English without its translations, of which English is one. Kubernetes' programs start faster without: kubectl's
// packages load the translations while Go initializes them, for 15 ms in each process of a control plane. Go initializes packages in the order of
// their import paths, once their own imports are ready. So Go initializes this package before the packages of k8s.io that call i18n.
package english

import "k8s.io/kubectl/pkg/util/i18n"

var _ = i18n.SetLoadTranslationsFunc(func() error { return nil })
