package plugin

import "reflect"

// withEmptyLists returns a copy of a result in which nil slices are empty slices, because programs that read JSON expect [] instead of null. It
// replaces a result that is a nil slice, or the nil slices in the direct fields of a struct. It does not replace nil slices deeper in the result.
func withEmptyLists(result any) any {
	from := reflect.ValueOf(result)
	if !from.IsValid() || from.Kind() != reflect.Slice && from.Kind() != reflect.Struct {
		return result
	}
	made := reflect.New(from.Type()).Elem()
	made.Set(from)
	fill(made)
	if made.Kind() == reflect.Struct {
		for i := range made.NumField() {
			fill(made.Field(i))
		}
	}
	return made.Interface()
}

// fill replaces a null list by an empty one.
func fill(value reflect.Value) {
	if value.CanSet() && value.Kind() == reflect.Slice && value.IsNil() {
		value.Set(reflect.MakeSlice(value.Type(), 0, 0))
	}
}
