; r_61_67_101: matrix(1, 1, 2x2, 64, 128, 1)
define internal void @"r_61_67_101.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2, ptr noalias %scratch) #0 {
entry:
  %local2 = getelementptr inbounds i8, ptr %scratch, i64 0
  %local0 = getelementptr inbounds i8, ptr %scratch, i64 8192
  %local1 = getelementptr inbounds i8, ptr %scratch, i64 12288
  call void @begin()
  %mul1 = mul nsw i64 0, 1024
  %mul2 = mul nsw i64 1, 1024
  %mul3 = mul nsw i64 0, 16
  %mul4 = mul nsw i64 1, 16
  %mul5 = mul nsw i64 0, 2048
  %mul6 = mul nsw i64 1, 2048
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %mul7 = mul nsw i64 %r0, 64
  br label %loop13
loop13:
  %r13 = phi i64 [ 0, %loop0 ], [ %next13, %latch13 ]
  %mul8 = mul nsw i64 %r13, 64
  %mul9 = mul nsw i64 %r13, 268
  %add10 = add nsw i64 %mul7, %mul9
  %cmplt11 = icmp slt i64 %r13, 26
  %cmplt12 = icmp slt i64 %r13, 25
  br label %loop14
loop14:
  %r14 = phi i64 [ 0, %loop13 ], [ %next14, %latch14 ]
  %mul13 = mul nsw i64 %r14, 16
  %add14 = add nsw i64 %mul8, %mul13
  %add15 = add nsw i64 %add10, %mul13
  %add16 = add nsw i64 %mul7, %mul13
  %first17 = insertelement <16 x i64> poison, i64 %add16, i64 0
  %splat18 = shufflevector <16 x i64> %first17, <16 x i64> poison, <16 x i32> zeroinitializer
  %add19 = add nsw <16 x i64> %splat18, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %cmplt20 = icmp slt <16 x i64> %add19, splat (i64 67)
  %first21 = insertelement <16 x i1> poison, i1 %cmplt11, i64 0
  %splat22 = shufflevector <16 x i1> %first21, <16 x i1> poison, <16 x i32> zeroinitializer
  %and23 = and <16 x i1> %splat22, %cmplt20
  %p24 = getelementptr i8, ptr %data2, i64 %add15
  %call25 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %p24, i32 1, <16 x i1> %and23, <16 x i8> zeroinitializer)
  %cast26 = zext <16 x i8> %call25 to <16 x i32>
  %add27 = add nsw i64 %add15, 67
  %first28 = insertelement <16 x i1> poison, i1 %cmplt12, i64 0
  %splat29 = shufflevector <16 x i1> %first28, <16 x i1> poison, <16 x i32> zeroinitializer
  %and30 = and <16 x i1> %splat29, %cmplt20
  %p31 = getelementptr i8, ptr %data2, i64 %add27
  %call32 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %p31, i32 1, <16 x i1> %and30, <16 x i8> zeroinitializer)
  %cast33 = zext <16 x i8> %call32 to <16 x i32>
  %shl34 = shl <16 x i32> %cast33, splat (i32 8)
  %or35 = or <16 x i32> %cast26, %shl34
  %add36 = add nsw i64 %add15, 134
  %p37 = getelementptr i8, ptr %data2, i64 %add36
  %call38 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %p37, i32 1, <16 x i1> %and30, <16 x i8> zeroinitializer)
  %cast39 = zext <16 x i8> %call38 to <16 x i32>
  %shl40 = shl <16 x i32> %cast39, splat (i32 16)
  %or41 = or <16 x i32> %or35, %shl40
  %add42 = add nsw i64 %add15, 201
  %p43 = getelementptr i8, ptr %data2, i64 %add42
  %call44 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %p43, i32 1, <16 x i1> %and30, <16 x i8> zeroinitializer)
  %cast45 = zext <16 x i8> %call44 to <16 x i32>
  %shl46 = shl <16 x i32> %cast45, splat (i32 24)
  %or47 = or <16 x i32> %or41, %shl46
  %p48 = getelementptr inbounds i32, ptr %local1, i64 %add14
  store <16 x i32> %or47, ptr %p48, align 4
  br label %latch14
latch14:
  %next14 = add nuw nsw i64 %r14, 1
  %more49 = icmp slt i64 %next14, 4
  br i1 %more49, label %loop14, label %exit14
exit14:
  br label %latch13
latch13:
  %next13 = add nuw nsw i64 %r13, 1
  %more50 = icmp slt i64 %next13, 32
  br i1 %more50, label %loop13, label %exit13
exit13:
  br label %loop1
loop1:
  %r1 = phi i64 [ 0, %exit13 ], [ %next1, %latch1 ]
  %mul51 = mul nsw i64 %r1, 32
  %mul52 = mul nsw i64 %r1, 3232
  br label %loop10
loop10:
  %r10 = phi i64 [ 0, %loop1 ], [ %next10, %latch10 ]
  %mul53 = mul nsw i64 %r10, 128
  %mul54 = mul nsw i64 %r10, 101
  %add55 = add nsw i64 %mul52, %mul54
  %add56 = add nsw i64 %mul51, %r10
  %cmplt57 = icmp slt i64 %add56, 61
  br label %loop11
loop11:
  %r11 = phi i64 [ 0, %loop10 ], [ %next11, %latch11 ]
  %mul58 = mul nsw i64 %r11, 64
  %add59 = add nsw i64 %mul53, %mul58
  %add60 = add nsw i64 %add55, %mul58
  %first61 = insertelement <64 x i64> poison, i64 %mul58, i64 0
  %splat62 = shufflevector <64 x i64> %first61, <64 x i64> poison, <64 x i32> zeroinitializer
  %add63 = add nsw <64 x i64> %splat62, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16, i64 17, i64 18, i64 19, i64 20, i64 21, i64 22, i64 23, i64 24, i64 25, i64 26, i64 27, i64 28, i64 29, i64 30, i64 31, i64 32, i64 33, i64 34, i64 35, i64 36, i64 37, i64 38, i64 39, i64 40, i64 41, i64 42, i64 43, i64 44, i64 45, i64 46, i64 47, i64 48, i64 49, i64 50, i64 51, i64 52, i64 53, i64 54, i64 55, i64 56, i64 57, i64 58, i64 59, i64 60, i64 61, i64 62, i64 63>
  %cmplt64 = icmp slt <64 x i64> %add63, splat (i64 101)
  %first65 = insertelement <64 x i1> poison, i1 %cmplt57, i64 0
  %splat66 = shufflevector <64 x i1> %first65, <64 x i1> poison, <64 x i32> zeroinitializer
  %and67 = and <64 x i1> %splat66, %cmplt64
  %p68 = getelementptr i8, ptr %data1, i64 %add60
  %call69 = call <64 x i8> @llvm.masked.load.v64i8.p0(ptr %p68, i32 1, <64 x i1> %and67, <64 x i8> zeroinitializer)
  %p70 = getelementptr inbounds i8, ptr %local0, i64 %add59
  store <64 x i8> %call69, ptr %p70, align 1
  br label %latch11
latch11:
  %next11 = add nuw nsw i64 %r11, 1
  %more71 = icmp slt i64 %next11, 2
  br i1 %more71, label %loop11, label %exit11
exit11:
  br label %latch10
latch10:
  %next10 = add nuw nsw i64 %r10, 1
  %more72 = icmp slt i64 %next10, 32
  br i1 %more72, label %loop10, label %exit10
exit10:
  br label %loop7
loop7:
  %r7 = phi i64 [ 0, %exit10 ], [ %next7, %latch7 ]
  call void @zero(i8 0)
  call void @zero(i8 1)
  call void @zero(i8 2)
  call void @zero(i8 3)
  %mul73 = mul nsw i64 %r7, 32
  %add74 = add nsw i64 %mul73, %mul1
  %add75 = add nsw i64 %mul73, %mul2
  %add76 = add nsw i64 %add74, %mul3
  %add77 = add nsw i64 %add74, %mul4
  %add78 = add nsw i64 %add75, %mul3
  %add79 = add nsw i64 %add75, %mul4
  br label %loop8
loop8:
  %r8 = phi i64 [ 0, %loop7 ], [ %next8, %latch8 ]
  %mul80 = mul nsw i64 %r8, 64
  %add81 = add nsw i64 %mul80, %mul5
  %add82 = add nsw i64 %mul80, %mul6
  %mul83 = mul nsw i64 %r8, 1024
  %add84 = add nsw i64 %mul73, %mul83
  %add85 = add nsw i64 %add84, %mul3
  %add86 = add nsw i64 %add84, %mul4
  %p87 = getelementptr inbounds i8, ptr %local0, i64 %add81
  call void @load(i8 4, ptr %p87, i64 128)
  %p88 = getelementptr inbounds i8, ptr %local0, i64 %add82
  call void @load(i8 5, ptr %p88, i64 128)
  %p89 = getelementptr inbounds i32, ptr %local1, i64 %add85
  call void @load(i8 6, ptr %p89, i64 256)
  %p90 = getelementptr inbounds i32, ptr %local1, i64 %add86
  call void @load(i8 7, ptr %p90, i64 256)
  call void @multiply(i8 0, i8 4, i8 6)
  call void @multiply(i8 1, i8 4, i8 7)
  call void @multiply(i8 2, i8 5, i8 6)
  call void @multiply(i8 3, i8 5, i8 7)
  br label %latch8
latch8:
  %next8 = add nuw nsw i64 %r8, 1
  %more91 = icmp slt i64 %next8, 2
  br i1 %more91, label %loop8, label %exit8
exit8:
  %p92 = getelementptr inbounds i32, ptr %local2, i64 %add76
  call void @store(i8 0, ptr %p92, i64 256)
  %p93 = getelementptr inbounds i32, ptr %local2, i64 %add77
  call void @store(i8 1, ptr %p93, i64 256)
  %p94 = getelementptr inbounds i32, ptr %local2, i64 %add78
  call void @store(i8 2, ptr %p94, i64 256)
  %p95 = getelementptr inbounds i32, ptr %local2, i64 %add79
  call void @store(i8 3, ptr %p95, i64 256)
  br label %latch7
latch7:
  %next7 = add nuw nsw i64 %r7, 1
  %more96 = icmp slt i64 %next7, 2
  br i1 %more96, label %loop7, label %exit7
exit7:
  %mul97 = mul nsw i64 %r1, 2144
  %add98 = add nsw i64 %mul7, %mul97
  br label %loop2
loop2:
  %r2 = phi i64 [ 0, %exit7 ], [ %next2, %latch2 ]
  %add99 = add nsw i64 %mul51, %r2
  %cmplt100 = icmp slt i64 %add99, 61
  %mul101 = mul nsw i64 %r2, 64
  %mul102 = mul nsw i64 %r2, 67
  %add103 = add nsw i64 %add98, %mul102
  br label %loop3
loop3:
  %r3 = phi i64 [ 0, %loop2 ], [ %next3, %latch3 ]
  %mul104 = mul nsw i64 %r3, 16
  %add105 = add nsw i64 %mul7, %mul104
  %first106 = insertelement <16 x i64> poison, i64 %add105, i64 0
  %splat107 = shufflevector <16 x i64> %first106, <16 x i64> poison, <16 x i32> zeroinitializer
  %add108 = add nsw <16 x i64> %splat107, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %cmplt109 = icmp slt <16 x i64> %add108, splat (i64 67)
  %first110 = insertelement <16 x i1> poison, i1 %cmplt100, i64 0
  %splat111 = shufflevector <16 x i1> %first110, <16 x i1> poison, <16 x i32> zeroinitializer
  %and112 = and <16 x i1> %splat111, %cmplt109
  %add113 = add nsw i64 %mul101, %mul104
  %p114 = getelementptr inbounds i32, ptr %local2, i64 %add113
  %load115 = load <16 x i32>, ptr %p114, align 4
  %add116 = add nsw i64 %add103, %mul104
  %p117 = getelementptr i32, ptr %data0, i64 %add116
  call void @llvm.masked.store.v16i32.p0(<16 x i32> %load115, ptr %p117, i32 4, <16 x i1> %and112)
  br label %latch3
latch3:
  %next3 = add nuw nsw i64 %r3, 1
  %more118 = icmp slt i64 %next3, 4
  br i1 %more118, label %loop3, label %exit3
exit3:
  br label %latch2
latch2:
  %next2 = add nuw nsw i64 %r2, 1
  %more119 = icmp slt i64 %next2, 32
  br i1 %more119, label %loop2, label %exit2
exit2:
  br label %latch1
latch1:
  %next1 = add nuw nsw i64 %r1, 1
  %more120 = icmp slt i64 %next1, 2
  br i1 %more120, label %loop1, label %exit1
exit1:
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more121 = icmp slt i64 %next0, 2
  br i1 %more121, label %loop0, label %exit0
exit0:
  call void @end()
  ret void
}

define void @"r_61_67_101"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %at2
  %room = getelementptr ptr, ptr %variables, i64 2
  %scratch = load ptr, ptr %room
  call void @"r_61_67_101.body"(ptr %data0, ptr %data1, ptr %data2, ptr %scratch)
  ret void
}

; words of the unit
declare <16 x i8> @llvm.masked.load.v16i8.p0(ptr, i32, <16 x i1>, <16 x i8>)
declare <64 x i8> @llvm.masked.load.v64i8.p0(ptr, i32, <64 x i1>, <64 x i8>)
declare void @llvm.masked.store.v16i32.p0(<16 x i32>, ptr, i32, <16 x i1>)
attributes #0 = { nounwind }
